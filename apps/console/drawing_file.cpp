#include "troupe/apps/console/drawing_file.hpp"

#include "troupe/files/error.hpp"
#include "troupe/files/input.hpp"
#include "troupe/runtime/support/write_aside.hpp"
#include "troupe/tools/drawing/drawing_mark.hpp"

#include <stdexcept>
#include <system_error>

namespace troupe::apps {

void check_replaceable(const std::filesystem::path& drawing, const std::filesystem::path& topology, bool overwrite) {
  std::error_code failed;
  const auto refuse = [&](const std::string& reason) {
    throw input_error(drawing.string() + ": " + reason + "; choose another path with -o");
  };
  if (const auto problem = files::irregularity(drawing)) refuse(*problem);
  if (std::filesystem::equivalent(topology, drawing, failed)) refuse("this is the topology file itself");
  if (overwrite || !std::filesystem::exists(std::filesystem::symlink_status(drawing, failed))) return;
  if (std::filesystem::is_regular_file(drawing, failed)) {
    std::string beginning(2048, '\0');
    files::input{drawing}.read(beginning.data(), beginning.size());
    if (beginning.find(drawing_mark) != std::string::npos) return;
  }
  throw input_error(drawing.string() +
                    ": there is a file of this name that troupe has not drawn; replace it with --overwrite, or choose "
                    "another path with -o");
}

void write_drawing(const std::filesystem::path& drawing, const std::string& content) {
  if (const auto folder = drawing.parent_path(); !folder.empty()) {
    std::error_code failed;  // write_aside() reports a folder that is missing
    std::filesystem::create_directories(folder, failed);
  }
  try {
    std::error_code missing;  // a link is kept unless it leads nowhere
    const auto target = std::filesystem::canonical(drawing, missing);
    write_aside(missing ? drawing : target, content);
  } catch (const std::runtime_error& reason) {
    throw input_error(std::string(reason.what()) + "; choose another path with -o");
  }
}

}  // namespace troupe::apps
