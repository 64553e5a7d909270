// troupe certs DIR --node alpha …: makes the certificates with which nodes and guests identify themselves.
#include "troupe/apps/commands.hpp"
#include "troupe/files/error.hpp"
#include "troupe/files/json.hpp"
#include "troupe/runtime/security/authority.hpp"
#include "troupe/runtime/support/terminal.hpp"

#include <CLI/CLI.hpp>

#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace troupe::apps {

namespace {

struct certs_options {
  security::certificate_request request;
  bool json{false};
};

void make(const certs_options& given) {
  const auto written = security::make_certificates(given.request);
  if (given.json) {
    auto paths = files::json::array();
    for (const auto& path : written) paths.push_back(path.string());
    std::cout << files::json_text(files::json{{"written", paths}}, {.indent = 2}) << "\n";
    return;
  }
  for (const auto& path : written) std::cout << for_terminal(path.string()) << "\n";
  std::cout << "A node or guest needs its own certificate and key, and authority.crt. Keep authority.key to yourself: "
               "whoever has it can join a run.\n";
}

}  // namespace

void add_certs(CLI::App& app, int& status) {
  auto* command =
      app.add_subcommand("certs", "Make certificates, with which nodes on several hosts identify themselves");
  auto given = std::make_shared<certs_options>();
  auto& request = given->request;
  constexpr int most_days = 3650;
  command
      ->add_option("DIR", request.folder,
                   "Folder for the certificates. If it has those of an authority, this authority signs the new ones")
      ->required();
  auto* nodes = command->add_option("--node", request.nodes, "Name of a [[node]]; repeatable")->allow_extra_args(false);
  auto* guests =
      command
          ->add_option("--guest", request.guests,
                       "Name of a guest: another program that may attach to a run if actors.allow has this name; "
                       "repeatable")
          ->allow_extra_args(false);
  command->add_option("--days", request.days, "Number of days for which the certificates are valid")
      ->check(CLI::Range(1, most_days))
      ->capture_default_str();
  command->add_flag("--overwrite", request.overwrite, "Replace certificates and keys of these names");
  command->add_flag("--json", given->json, "Print the paths as one JSON object");
  command->callback([given, nodes, guests, &status] {
    if (nodes->count() + guests->count() == 0)
      throw input_error("no name is given; expected --node NAME or --guest NAME");
    make(*given);
    status = 0;
  });
}

}  // namespace troupe::apps
