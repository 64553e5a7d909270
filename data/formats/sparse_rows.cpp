#include "troupe/data/formats/sparse_rows.hpp"

namespace troupe::data {

std::shared_ptr<const sparse_rows> sparse_rows::chosen(std::vector<std::int64_t> indices) const {
  struct chosen_rows {
    std::vector<std::int64_t> which;
    std::shared_ptr<const void> of;
  };
  const auto kept = std::make_shared<chosen_rows>(chosen_rows{std::move(indices), owner_});
  const auto result = std::make_shared<sparse_rows>(*this);
  result->rows_ = static_cast<std::int64_t>(kept->which.size());
  result->nonzeros_ = 0;
  for (std::int64_t& index : kept->which) {
    if (which_ != nullptr) index = which_[index];
    result->nonzeros_ += offsets_[index + 1] - offsets_[index];
  }
  result->which_ = kept->which.data();
  result->owner_ = kept;
  return result;
}

}  // namespace troupe::data
