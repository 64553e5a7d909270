// Renders drawings with Graphviz. No other file uses it.
#include "troupe/runtime/plan/plan.hpp"
#include "troupe/tools/drawing/colours.hpp"
#include "troupe/tools/drawing/drawing.hpp"
#include "troupe/tools/drawing/drawing_mark.hpp"

#include <graphviz/gvc.h>

#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>

namespace troupe {

std::string to_svg(const std::string& dot) {
  // Graphviz keeps its state in globals.
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  agseterr(AGMAX);  // keeps messages about fonts and the like off the terminal
  // One context for the process, never freed: the text plugin keeps a pointer to a font name of the context it was
  // first used with (Graphviz 2.42), and would read it after that context is gone.
  static GVC_t* const context = gvContext();
  const std::unique_ptr<Agraph_t, decltype(&agclose)> graph(agmemread(dot.c_str()), &agclose);
  if (context == nullptr || !graph) throw std::runtime_error("Graphviz cannot read the drawing");
  // The drawing brings its own positions; this engine keeps them.
  if (gvLayout(context, graph.get(), "nop2") != 0) throw std::runtime_error("Graphviz cannot lay out the drawing");
  char* bytes = nullptr;
  unsigned length = 0;
  const auto failed = gvRenderData(context, graph.get(), "svg", &bytes, &length);
  std::string svg = failed == 0 ? std::string(bytes, length) : std::string();
  gvFreeRenderData(bytes);
  gvFreeLayout(context, graph.get());
  if (failed != 0) throw std::runtime_error("Graphviz cannot render SVG: is its core plugin installed (libgvc)?");
  // The styles take effect only after the opening tag.
  const auto opened = svg.find('>', svg.find("<svg"));
  if (opened != std::string::npos)
    svg.insert(opened + 1, "\n<!-- " + std::string(drawing_mark) + " -->\n" + dark_styles());
  return svg;
}

std::string svg_of(const plan& plan) {
  return to_svg(to_dot(plan));
}

}  // namespace troupe
