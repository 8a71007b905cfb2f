// Certification: the frozen winner of a search through gate 2 in full. Only
// this accepts a kernel.
#pragma once

#include "agents/search.h"

namespace kernelopt {

struct Certificate {
  Verdict verdict;
  std::string label;  ///< "bitwise" | "within rule"; empty when rejected
};

/// Gate 1 again on the text and on what it compiled to, then CertifyKernel at
/// every site. The judge is asked to give its memory back first, so that
/// nothing of the search is left.
Certificate CertifyWinner(const SearchSubject& subject, const Winner& winner, SearchTools tools,
                          const KernelRule& rule);

}  // namespace kernelopt
