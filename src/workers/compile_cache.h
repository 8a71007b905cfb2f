// The folder of compiled kernels, by content.
//
//   FOLDER/ab/abcdef.../   result.json, kernel.cubin, kernel.ttir, kernel.ptx
//   FOLDER/new/            entries that are being made
//
// An entry is made in new/ and renamed into its place whole, so that processes
// that share the folder never see half of one; the first of two equal entries
// stays. result.json names the hash of the cubin, and an entry whose cubin has
// another one (a disk that lost it) is made again. Kept failures are those of the
// kernel's own text, never a time limit or a lost worker.
#pragma once

#include <optional>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "workers/compile.h"

namespace kernelopt {

class CompileCache {
 public:
  explicit CompileCache(std::string folder) : folder_(std::move(folder)) {}

  /// SHA-256 over all that a result depends on; `toolchain` names the versions.
  static std::string Key(const CompileRequest& request, const std::string& toolchain);

  /// The kept result: an output, an error of code "compile_error", or nothing.
  std::optional<Result<CompileOutput>> Find(const std::string& key) const;

  /// Where a work folder has the request's source.
  static std::string SourcePath(const std::string& work_folder, const CompileRequest& request);

  /// Removes what killed processes left in new/: nobody makes an entry for an hour.
  void RemoveAbandoned() const;

  /// A new folder in new/ with the request's source in it. Errors: kEnvironment.
  Result<std::string> MakeWorkFolder(const CompileRequest& request) const;

  /// Keeps what a worker answered, whose files are in `work_folder`, and gives it
  /// with the files in their place. Errors: kInternal "protocol_error" when the
  /// answer is not one of the compile worker; kEnvironment.
  Result<CompileOutput> Keep(const std::string& key, const std::string& work_folder,
                             const Json& answer) const;

  /// Keeps the kernel's own fault.
  Status KeepFailure(const std::string& key, const std::string& work_folder,
                     const Error& error) const;

  static void RemoveWorkFolder(const std::string& work_folder);

 private:
  std::string EntryFolder(const std::string& key) const;
  Status MoveIntoPlace(const std::string& key, const std::string& work_folder,
                       const Json& result) const;

  std::string folder_;
};

}  // namespace kernelopt
