// Who touches which element: two texts made of a kernel that updates storages in place.
//
//   OwnerTexts owners = KOPT_TRY(MakeOwnerTexts(module, {0, 3}));
//   ... zero the storages, launch `mark`, launch `check`; did `check` change a byte?
//
// In place, each program must read and write elements of its own: else what a program
// reads depends on whether another has written already, which may go well a thousand
// times. Both texts have the kernel's parameters, addresses and control flow. `mark`
// stores the program's number, in the element's width, where the kernel stores a value.
// `check` stores all ones over an element that another program has marked, wherever
// the kernel loads or stores. Unchanged by `check` means that no program touched
// another's element.
//
// What is loaded from those storages is zero in both, so addresses, masks and branches
// must not depend on it.
#pragma once

#include <set>
#include <string>

#include "base/result.h"
#include "ttir/ttir.h"

namespace kernelopt {

struct OwnerTexts {
  std::string mark, check;
};

/// `tracked`: parameters of the entry that lead to the storages. Errors: kUsage
/// "not_analysable" (an address can't be followed, or may lead to another storage as
/// well; where a program goes depends on a loaded value; an atomic; an element of another
/// width than 8, 16, 32 or 64 bits), naming operation and line.
Result<OwnerTexts> MakeOwnerTexts(const TtirModule& module, const std::set<int>& tracked);

}  // namespace kernelopt
