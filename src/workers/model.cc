#include "workers/model.h"

#include <fmt/format.h>

namespace kernelopt {

std::string VariantSpec::Name() const {
  return fmt::format("{}{}{}", mode, train ? "+train" : "",
                     input_set == 0 ? "" : fmt::format("#{}", input_set));
}

}  // namespace kernelopt
