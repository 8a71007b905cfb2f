#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "ttir/promote.h"

namespace kernelopt {
namespace {

// Functions whose float32 name is the float64 name and an 'f'. Left out on
// purpose: nextafter (a neighbour among the type's numbers), frexp, modf, remquo
// (results through pointers), saturate (float32 only).
constexpr std::string_view kPlain[] = {
    "acos",    "acosh",         "asin",          "asinh",     "atan",   "atan2",
    "atanh",   "cbrt",          "ceil",          "copysign",  "cos",    "cosh",
    "cospi",   "cyl_bessel_i0", "cyl_bessel_i1", "erf",       "erfc",   "erfcinv",
    "erfcx",   "erfinv",        "exp",           "exp10",     "exp2",   "expm1",
    "fabs",    "fdim",          "floor",         "fma",       "fmax",   "fmin",
    "fmod",    "hypot",         "ilogb",         "j0",        "j1",     "jn",
    "ldexp",   "lgamma",        "llrint",        "llround",   "log",    "log10",
    "log1p",   "log2",          "logb",          "nearbyint", "norm3d", "norm4d",
    "normcdf", "normcdfinv",    "pow",           "powi",      "rcbrt",  "remainder",
    "rhypot",  "rint",          "rnorm3d",       "rnorm4d",   "round",  "rsqrt",
    "scalbn",  "sin",           "sinh",          "sinpi",     "sqrt",   "tan",
    "tanh",    "tgamma",        "trunc",         "y0",        "y1",     "yn",
};

// Others. Directed and fast variants become the exactly rounded one: the twin
// stands for exact arithmetic.
constexpr std::pair<std::string_view, std::string_view> kOthers[] = {
    {"fadd_rn", "dadd_rn"},
    {"fadd_rz", "dadd_rn"},
    {"fadd_rd", "dadd_rn"},
    {"fadd_ru", "dadd_rn"},
    {"fsub_rn", "dsub_rn"},
    {"fsub_rz", "dsub_rn"},
    {"fsub_rd", "dsub_rn"},
    {"fsub_ru", "dsub_rn"},
    {"fmul_rn", "dmul_rn"},
    {"fmul_rz", "dmul_rn"},
    {"fmul_rd", "dmul_rn"},
    {"fmul_ru", "dmul_rn"},
    {"fdiv_rn", "ddiv_rn"},
    {"fdiv_rz", "ddiv_rn"},
    {"fdiv_rd", "ddiv_rn"},
    {"fdiv_ru", "ddiv_rn"},
    {"frcp_rn", "drcp_rn"},
    {"frcp_rz", "drcp_rn"},
    {"frcp_rd", "drcp_rn"},
    {"frcp_ru", "drcp_rn"},
    {"fsqrt_rn", "dsqrt_rn"},
    {"fsqrt_rz", "dsqrt_rn"},
    {"fsqrt_rd", "dsqrt_rn"},
    {"fsqrt_ru", "dsqrt_rn"},
    {"fmaf_rn", "fma_rn"},
    {"fmaf_rz", "fma_rn"},
    {"fmaf_rd", "fma_rn"},
    {"fmaf_ru", "fma_rn"},
    {"frsqrt_rn", "rsqrt"},
    {"fast_cosf", "cos"},
    {"fast_sinf", "sin"},
    {"fast_tanf", "tan"},
    {"fast_expf", "exp"},
    {"fast_exp10f", "exp10"},
    {"fast_logf", "log"},
    {"fast_log2f", "log2"},
    {"fast_log10f", "log10"},
    {"fast_powf", "pow"},
    {"fast_fdividef", "ddiv_rn"},
    {"finitef", "isfinited"},
    {"isinff", "isinfd"},
    {"isnanf", "isnand"},
    {"signbitf", "signbitd"},
    {"float2int_rn", "double2int_rn"},
    {"float2int_rz", "double2int_rz"},
    {"float2int_rd", "double2int_rd"},
    {"float2int_ru", "double2int_ru"},
    {"float2uint_rn", "double2uint_rn"},
    {"float2uint_rz", "double2uint_rz"},
    {"float2uint_rd", "double2uint_rd"},
    {"float2uint_ru", "double2uint_ru"},
    {"float2ll_rn", "double2ll_rn"},
    {"float2ll_rz", "double2ll_rz"},
    {"float2ll_rd", "double2ll_rd"},
    {"float2ll_ru", "double2ll_ru"},
    {"float2ull_rn", "double2ull_rn"},
    {"float2ull_rz", "double2ull_rz"},
    {"float2ull_rd", "double2ull_rd"},
    {"float2ull_ru", "double2ull_ru"},
};

}  // namespace

std::string_view Float64Function(std::string_view symbol) {
  static const std::map<std::string, std::string, std::less<>> table = [] {
    std::map<std::string, std::string, std::less<>> made;
    const std::string prefix = "__nv_";
    for (std::string_view name : kPlain) {
      const std::string wide = prefix + std::string(name);
      made.emplace(wide + "f", wide);
      made.emplace(wide, wide);
    }
    for (const auto& [narrow, wide] : kOthers) {
      made.emplace(prefix + std::string(narrow), prefix + std::string(wide));
      made.emplace(prefix + std::string(wide), prefix + std::string(wide));
    }
    return made;
  }();
  auto found = table.find(symbol);
  return found == table.end() ? std::string_view() : std::string_view(found->second);
}

}  // namespace kernelopt
