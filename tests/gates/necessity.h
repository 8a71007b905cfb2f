// What each check of the gates is needed for: with it left out, which bad candidates
// come through?
#pragma once

#include "corpus.h"

namespace kernelopt {

/// Gate 1, without a GPU: a bad candidate that only one check finds is accepted by
/// gate 1 without that check; one that several find shows layers, each of which would do.
/// Prints one line a check; gives the number of checks that find nothing in the corpus. A
/// compile that fails is no check: there is nothing to accept.
int PrintStaticNecessity(const std::vector<Item>& items);

/// Gate 2, on what gate 1 accepts: each bad candidate is judged again without the check
/// that rejected it, and where that was the error rule, without each of its parts. Ends
/// after `seconds`. Gives the number of gate 2's checks that nothing was shown to need.
int PrintNecessity(Corpus& corpus, std::vector<Item>& items, double seconds);

}  // namespace kernelopt
