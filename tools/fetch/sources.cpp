// The sources of the data sets. Sizes and checksums are those that TensorFlow Datasets states for the same files
// (tensorflow_datasets/url_checksums/mnist.txt, fashion_mnist.txt and cifar10.txt).
#include "troupe/tools/fetch/fetch.hpp"

namespace troupe::fetch {

namespace {

/// Size of each file: 10,000 images with one label each.
constexpr std::uint64_t cifar10_bytes = 10'000 * (1 + 3 * 32 * 32);

}  // namespace

const std::vector<source>& sources() {
  static const std::vector<source> all{
      {.name = "mnist",
       .mirrors = {"https://ossci-datasets.s3.amazonaws.com/mnist/",
                   "https://storage.googleapis.com/cvdf-datasets/mnist/"},
       .files = {{"train-images-idx3-ubyte.gz", 9'912'422,
                  "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"},
                 {"train-labels-idx1-ubyte.gz", 28'881,
                  "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"},
                 {"t10k-images-idx3-ubyte.gz", 1'648'877,
                  "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"},
                 {"t10k-labels-idx1-ubyte.gz", 4'542,
                  "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"}}},
      {.name = "fashion_mnist",
       .mirrors = {"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
                   "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/"},
       .files = {{"train-images-idx3-ubyte.gz", 26'421'880,
                  "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"},
                 {"train-labels-idx1-ubyte.gz", 29'515,
                  "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"},
                 {"t10k-images-idx3-ubyte.gz", 4'422'102,
                  "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"},
                 {"t10k-labels-idx1-ubyte.gz", 5'148,
                  "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"}}},
      {.name = "cifar10",
       .mirrors = {"https://www.cs.toronto.edu/~kriz/"},
       .files = {{"cifar-10-binary.tar.gz", 170'052'171,
                  "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"}},
       .contents = {{"data_batch_1.bin", cifar10_bytes, {}},
                    {"data_batch_2.bin", cifar10_bytes, {}},
                    {"data_batch_3.bin", cifar10_bytes, {}},
                    {"data_batch_4.bin", cifar10_bytes, {}},
                    {"data_batch_5.bin", cifar10_bytes, {}},
                    {"test_batch.bin", cifar10_bytes, {}}}}};
  return all;
}

const source* find_source(const std::string& name) {
  for (const auto& source : sources())
    if (source.name == name) return &source;
  return nullptr;
}

}  // namespace troupe::fetch
