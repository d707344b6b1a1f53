#include "fetch/published.h"

#include "data/cifar/cifar100_set.h"
#include "data/cifar/cifar_set.h"
#include "data/mnist/mnist_set.h"

namespace ct {
namespace {

// The checksums of data sets are the MD5 of torchvision and of the sets' own pages. Its weights carry the beginning of
// their SHA-256 in their names.

Published cifar(std::string key, std::string_view title, std::string_view folder, PublishedFile archive) {
  return {.key = std::move(key),
          .title = std::string(title),
          .terms =
              "no licence is stated; its authors ask to cite: A. Krizhevsky, Learning Multiple Layers of Features "
              "from Tiny Images, 2009",
          .servers = {"https://www.cs.toronto.edu/~kriz/", "https://cave.cs.toronto.edu/kriz/"},
          .files = {std::move(archive)},
          .folder = std::string(folder)};
}

Published weights(const std::string& network, PublishedFile file) {
  return {.key = "weights:" + network,
          .title = "torchvision's " + network + " (IMAGENET1K_V1)",
          .terms = "BSD-3-Clause as torchvision; trained on ImageNet, whose terms are for non-commercial research",
          .servers = {"https://download.pytorch.org/models/"},
          .files = {std::move(file)},
          .folder = ""};
}

}  // namespace

std::span<const Published> published() {
  static const std::vector<Published> all = {
      cifar("cifar10", kCifarName, kCifarFolder,
            {"cifar-10-binary.tar.gz", 170'052'171, "c32a1d4ab5d03f1284b67883e8d87530", ""}),
      cifar("cifar100", kCifar100Name, kCifar100Folder,
            {"cifar-100-binary.tar.gz", 168'513'733, "03b5dce01913d631647c71ecec9e9cb8", ""}),
      {.key = "mnist",
       .title = "MNIST",
       .terms = "CC BY-SA 3.0; Y. LeCun, C. Cortes, C. Burges",
       .servers = {std::string(kMnistSource), "https://storage.googleapis.com/cvdf-datasets/mnist/",
                   "http://yann.lecun.com/exdb/mnist/"},
       .files = {{"train-images-idx3-ubyte.gz", 9'912'422, "f68b3c2dcbeaaa9fbdd348bbdeb94873", ""},
                 {"train-labels-idx1-ubyte.gz", 28'881, "d53e105ee54ea40749a09fcbcd1e9432", ""},
                 {"t10k-images-idx3-ubyte.gz", 1'648'877, "9fb629c4189551a2d022fa330f9573f3", ""},
                 {"t10k-labels-idx1-ubyte.gz", 4'542, "ec29112dd5afa0611ce80d1b7f02629c", ""}},
       .folder = std::string(kMnistFolder)},
      {.key = "fashion-mnist",
       .title = "Fashion-MNIST",
       .terms = "MIT; Zalando SE",
       .servers = {"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
                   "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/"},
       .files = {{"train-images-idx3-ubyte.gz", 26'421'880, "8d4fb7e6c68d591d4c3dfef9ec88bf0d", ""},
                 {"train-labels-idx1-ubyte.gz", 29'515, "25c81989df183df01b3e8a0aad5dffbe", ""},
                 {"t10k-images-idx3-ubyte.gz", 4'422'102, "bef4ecab320f06d8554ea6380940ec79", ""},
                 {"t10k-labels-idx1-ubyte.gz", 5'148, "bb300cfdad3c16e7a12a480ee83cd310", ""}},
       .folder = std::string(kFashionFolder)},
      weights("resnet18", {"resnet18-f37072fd.pth", 46'830'571, "",
                           "f37072fd47e89c5e827621c5baffa7500819f7896bbacec160b1a16c560e07ec"}),
      weights("resnet34", {"resnet34-b627a593.pth", 87'319'819, "",
                           "b627a593bcbe140c234610266fe4f8ae95ea42fc881d091c9b6052e6b1d0590f"}),
      weights("resnet50", {"resnet50-0676ba61.pth", 102'530'333, "",
                           "0676ba61b6795bbe1773cffd859882e5e297624d384b6993f7c9e683e722fb8a"}),
      weights("resnet101", {"resnet101-63fe2227.pth", 178'793'939, "",
                            "63fe2227b86e8f1f2063f43a75c84d195911b6a0eace650907dd3dc62dd49a0a"}),
      weights("resnet152", {"resnet152-394f9c45.pth", 241'627'721, "",
                            "394f9c45966e3651a89bbb78a48410a6755854ce4a5ab64927cf1c7247f85e58"}),
  };
  return all;
}

}  // namespace ct
