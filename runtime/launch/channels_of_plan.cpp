#include "troupe/runtime/launch/channels_of_plan.hpp"

#include "troupe/net/channels/endpoint.hpp"
#include "troupe/net/channels/tls.hpp"
#include "troupe/net/security/credentials.hpp"
#include "troupe/runtime/plan/refuse.hpp"

#include <cstdlib>
#include <utility>

namespace troupe {

namespace {

bool has_certificates(const topology::security_settings& given) {
  return !given.certificates.empty() || !given.certificate.empty();
}

security::credential_files files_of(const topology::security_settings& given, const std::string& node) {
  auto files = security::files_in(given.certificates, node);
  if (!given.authority.empty()) files.authority = given.authority;
  if (!given.certificate.empty()) files.certificate = given.certificate;
  if (!given.key.empty()) files.key = given.key;
  return files;
}

security::shared_secret secret_of(const plan& plan) {
  if (const auto* given = std::getenv(security::secret_variable))
    return security::parse_secret(given, std::string("the environment variable ") + security::secret_variable);
  return security::secret_in(secret_file_of(plan));
}

}  // namespace

void check_security(const plan& plan) {
  const auto& given = plan.file.security;
  if (plan.nodes.size() < 2 || has_certificates(given) || given.insecure) return;
  for (const auto& node : plan.nodes)
    for (const auto& [key, address] : {std::pair{"address", node.address}, {"listen", node.listen}})
      if (!is_loopback(address))
        refuse(plan.file, "node." + node.name + "." + key,
               "node." + node.name + "." + key + " is \"" + print_endpoint(address) +
                   "\", which is not a loopback address, but the nodes have no certificates; make some with "
                   "`troupe certs` and set security.certificates, or set security.insecure = true if you trust "
                   "every machine in the network");
}

std::filesystem::path secret_file_of(const plan& plan) {
  return plan.file.file.parent_path() / "troupe.secret";
}

bool uses_secret(const plan& plan) {
  return plan.nodes.size() > 1 && !has_certificates(plan.file.security) && !plan.file.security.insecure;
}

bool uses_certificates(const plan& plan) {
  return has_certificates(plan.file.security);
}

namespace {

std::shared_ptr<const transport::channel_factory> certified_channels(const plan& plan, std::uint32_t node,
                                                                     const guest_rights& guests) {
  const auto& name = plan.nodes[node].name;
  const auto files = files_of(plan.file.security, name);
  security::check(files, name);
  return transport::tls_channels(files, {.accepts_guests = guests.admitted});
}

}  // namespace

std::shared_ptr<const transport::channel_factory> channels_of(const plan& plan, std::uint32_t node,
                                                              const guest_rights& guests) {
  check_security(plan);
  if (plan.file.security.insecure) return transport::plain_channels();
  if (uses_certificates(plan)) return certified_channels(plan, node, guests);
  return transport::secret_channels({.of_nodes = secret_of(plan), .of_guests = guests.secret});
}

std::shared_ptr<const transport::channel_factory> channels_of_guests(const plan& plan, const guest_rights& guests) {
  if (uses_certificates(plan)) return certified_channels(plan, 0, guests);
  return transport::secret_channels({.of_guests = guests.secret});
}

}  // namespace troupe
