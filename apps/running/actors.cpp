#include "troupe/apps/running/actors.hpp"

#include "troupe/apps/console/address_option.hpp"
#include "troupe/files/error.hpp"
#include "troupe/net/guests/entrance_file.hpp"
#include "troupe/net/security/secret.hpp"
#include "troupe/runtime/supervision/fingerprint.hpp"
#include "troupe/runtime/support/write_aside.hpp"
#include "troupe/runtime/topology/load.hpp"
#include "troupe/tools/drawing/drawing.hpp"

#include <system_error>
#include <utility>

namespace troupe::apps {

namespace {

/// The file with the address and the secret, which exists as long as guests can use it.
class entrance_file {
 public:
  entrance_file(std::filesystem::path path, const endpoint& where, const std::string& secret) : path_(std::move(path)) {
    write_aside(path_, guests::text_of(where, secret), readers::owner);
  }
  ~entrance_file() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  entrance_file(const entrance_file&) = delete;
  entrance_file& operator=(const entrance_file&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// No address is not the default address: a file with [[node]] takes none.
constexpr address_option entrance_option{.name = "--actors", .by_default = "", .example = default_entrance};

bool has_nodes(const plan& plan) {
  return !plan.file.nodes.empty();
}

}  // namespace

void add_actors_option(CLI::App& command, actors_option& given) {
  add_address_option(
      command, entrance_option, given.address,
      "Let other programs attach to the run as guests, to observe and steer it: at the port of the first "
      "node or, without [[node]], at this address (default: 127.0.0.1:8266; port 0 chooses a free one)");
}

void settle(actors_option& given, std::filesystem::path& file) {
  settle(entrance_option, given.address, file);
}

void check_entrance(const actors_option& given, const plan& plan) {
  if (!given.address) return;
  if (plan.file.security.insecure)
    throw input_error(
        "--actors cannot be combined with security.insecure = true, because guests would not have to identify "
        "themselves; make certificates with `troupe certs`");
  if (has_nodes(plan) && !given.address->empty())
    throw input_error(
        "--actors: the file has [[node]] sections, and guests use the port of the first node; give no "
        "address");
  if (!has_nodes(plan) && uses_certificates(plan))
    throw input_error(
        "--actors: certificates are for nodes, but the file has no [[node]]; add one, whose name is in the "
        "certificate");
  const auto& listens = plan.nodes.front().listen;
  if (has_nodes(plan) && !uses_certificates(plan) && !is_loopback(listens))
    throw input_error("--actors: the first node listens on " + print_endpoint(listens) +
                      ", which is not a loopback address, but has no certificates; make some with `troupe certs` and "
                      "set security.certificates");
  if (has_nodes(plan) || given.address->empty()) return;
  if (!is_loopback(*parse_endpoint(*given.address)))
    throw input_error("--actors: " + *given.address +
                      " is not a loopback address; guests of other hosts need certificates, for which the file must "
                      "have a [[node]] and [security]");
}

std::optional<guest_access> guests_of(const actors_option& given, const plan& plan,
                                      const std::shared_ptr<telemetry::feed>& feed,
                                      std::function<std::filesystem::path()> folder, std::function<void()> conclude,
                                      std::function<void(const std::string&)> report) {
  if (!given.address) return {};
  const auto secret = security::make_secret();
  const auto certified = uses_certificates(plan);
  guest_access access{.listen = has_nodes(plan)
                                    ? plan.nodes.front().listen
                                    : *parse_endpoint(given.address->empty() ? default_entrance : *given.address),
                      .rights = {.admitted = true}};
  if (!certified) access.rights.secret = security::parse_secret(secret, "a new secret");
  const auto file = std::make_shared<std::unique_ptr<entrance_file>>();
  access.open = [=, &plan](const endpoint& where, std::vector<std::shared_ptr<guests::seat>> seats) {
    guests::entrance_options options{.node = has_nodes(plan) ? plan.nodes.front().name : "",
                                     .version = version(),
                                     .allow = plan.file.actors.allow,
                                     .feed = feed,
                                     .about = {.topology = topology::print(plan.file),
                                               .plan = describe_json(plan),
                                               .folder = std::filesystem::absolute(folder()).string()},
                                     .seats = std::move(seats),
                                     .steps = plan.when.steps,
                                     .report = report};
    if (!certified) *file = std::make_unique<entrance_file>(folder() / guests::entrance_file_name, where, secret);
    report("guests: " + print_endpoint(where) +
           (certified ? ", with certificates of the names in actors.allow"
                      : ", with the secret in " + (*file)->path().string()));
    return std::make_shared<guests::entrance>(std::move(options));
  };
  access.conclude = [file, conclude = std::move(conclude)] {
    file->reset();
    conclude();
  };
  return access;
}

}  // namespace troupe::apps
