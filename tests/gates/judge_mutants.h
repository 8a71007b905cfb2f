// Mutants (mutants.py) through gates 1 and 2.
#pragma once

#include <string>

#include "base/result.h"

namespace kernelopt {

struct MutantOptions {
  std::string folder;   ///< of mutants.py: mutants.jsonl and what it names
  std::string results;  ///< JSON lines, added to; what is in it already is not done again
  bool only_static = false;
  int64_t limit = 0;          ///< at most so many new results; 0 = all
  int shard = 0, shards = 1;  ///< of the mutants, this part
  double seconds = 1e9;       ///< no new batch after this long
};

/// Judges and prints the table. A result line has the mutant's id, operator, base, kernel,
/// line and change, and
///   outcome   not_compiled | same (TTIR as the base's) | rejected | survived
///   stage     of a rejection: text, binary, screen, certify
///   reason    its code
///   bitwise   of a survivor: every byte equal on all data
///   message, seconds
/// Without a GPU (`only_static`) a line with the outcome "gate2" stands for a mutant that
/// gate 1 lets through; a later run replaces it.
Status JudgeMutants(const MutantOptions& options);

}  // namespace kernelopt
