#include "troupe/tools/comparing/tables.hpp"

#include "troupe/runtime/support/csv.hpp"

#include <cstdint>
#include <initializer_list>

namespace troupe::comparing {

namespace {

std::string number(const std::optional<std::uint64_t>& value) {
  return value ? std::to_string(*value) : std::string();
}

std::string row(std::initializer_list<std::string> fields) {
  std::string text;
  for (const auto& field : fields) text += field + ",";
  text.back() = '\n';
  return text;
}

}  // namespace

std::string compare_csv(const comparison& what, const std::vector<made_run>& runs) {
  std::string text =
      "file,repeat,seed,status,seconds,samples,updates,bytes_sent,final_accuracy,best_accuracy,seconds_to_target,"
      "staleness_mean,idle_share\n";
  for (const auto& [run, result] : runs)
    text += row({csv_field(what.variants.at(run.variant).file_column()), std::to_string(run.repeat),
                 std::to_string(run.seed), result.status, csv_number(result.seconds), number(result.samples),
                 number(result.updates), number(result.bytes_sent), csv_number(result.final_accuracy),
                 csv_number(result.best_accuracy), csv_number(result.seconds_to_target),
                 csv_number(result.staleness_mean), csv_number(result.idle_share)});
  return text;
}

std::string curves_csv(const comparison& what, const std::vector<made_run>& runs) {
  std::string text =
      "file,repeat,seed,step,updates,seconds,train_seconds,samples,bytes_sent,train_loss,val_loss,val_accuracy\n";
  for (const auto& [run, result] : runs)
    for (const auto& at : result.points)
      text +=
          row({csv_field(what.variants.at(run.variant).file_column()), std::to_string(run.repeat),
               std::to_string(run.seed), std::to_string(at.step), std::to_string(at.updates), csv_number(at.seconds),
               csv_number(at.train_seconds), number(at.samples), std::to_string(at.bytes_sent),
               csv_number(at.train_loss), csv_number(at.val_loss), csv_number(at.val_accuracy)});
  return text;
}

}  // namespace troupe::comparing
