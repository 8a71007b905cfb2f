// The pack: the folder NAME.kopt that holds the proven replacements of a
// model (layout: docs/protocol.md).
//
//   KOPT_CHECK_OK(WritePack(pack, "model.kopt", PackMode::kNew));
//   Pack pack = KOPT_TRY(CheckPack("model.kopt"));          // before anything of it is used
//   Json answer = KOPT_TRY(ResolveModule(pack, module_text)); // resolve.h, for the loader
//
// A pack is immutable: it is written to a temporary neighbour and renamed, so
// that it is there whole or not at all, and an existing one with other
// contents is replaced only where that is asked for. A draft, which gates 3
// and 4 run before there is anything to report, is a pack with `preview` set,
// no speed-up and no report.
//
// It is foreign input: CheckPack holds every file to its hash, the manifest to
// manifest.sha256, every replacement to its id (so that text, configuration and
// key are the ones that the evidence speaks of, even where somebody repaired the
// hashes) and every kernel text to gate 1. Hashes and ids find damage and edits;
// they are no signature. A version that lets an id cover more raises kPackSchema.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "device/launch_record.h"
#include "device/replacement.h"

namespace kernelopt {

inline constexpr int kPackSchema = 1;

/// The GPU that a pack was measured on and is valid for.
struct PackGpu {
  std::string name;
  int compute_capability = 0;
  int sm_count = 0;
  std::string mig;  ///< MIG profile or empty

  bool operator==(const PackGpu&) const = default;
};

struct PackSpeedup {
  double median = 0, lo = 0, hi = 0;  ///< ours over the compiler's, of the confirmation run
};

struct PackVariant {
  std::string name, mode;
  bool train = false;
  int input_set = 0;
  std::optional<PackSpeedup> speedup;  ///< absent in a draft
  std::vector<std::string> modules;    ///< module keys of its graphs
};

struct PackKernel {
  Replacement replacement;           ///< `drop_in`
  std::string name;                  ///< entry function of the replacement's text
  std::vector<std::string> modules;  ///< keys of the modules in which it may be swapped
  std::string cubin;                 ///< the bytes
  LaunchRecord record;
  std::string binary_hash;
  std::string label;  ///< "bitwise" | "within rule"
  /// Measured, for the header comment of the kernel's file; 0 = not measured.
  double compiler_us = 0, ours_us = 0;

  // Set by reading, and by WritePack for the manifest.
  std::string id;                ///< replacement.Id(); reading holds the one to the other
  std::string file, cubin_file;  ///< names inside the folder
};

struct Pack {
  std::string kernelopt_version;
  bool preview = true;
  std::string policy = "strict";
  std::string torch, triton, python;
  PackGpu gpu;
  std::string model_file, model_sha256;
  std::vector<PackVariant> variants;
  std::vector<PackKernel> kernels;
  std::map<std::string, std::string> evidence;  ///< "gate3.json" -> JSON text; written, not read
  std::string report_html;                      ///< empty = none; written, not read

  // Set by reading.
  std::map<std::string, std::string> files;  ///< name inside the folder -> SHA-256
  std::string folder;                        ///< where it was read from
};

enum class PackMode {
  kNew,      ///< an existing pack with other contents is an error
  kReplace,  ///< it is replaced (drafts, --force)
};

/// Errors: kUsage "pack_exists" (other contents, or a folder that isn't a pack,
/// which is never replaced); kInternal "bad_pack" (a replacement that is not
/// drop_in, two for one kernel and module); kEnvironment "not_writable",
/// "disk_full".
Status WritePack(const Pack& pack, const std::string& folder, PackMode mode);

/// The manifest of a pack whose `files` and file names are set.
Json ManifestOf(const Pack& pack);

/// Reads a manifest's text; no file is looked at. Kernels have no text and no
/// cubin yet. Errors: kUsage "corrupt_pack", "newer_schema".
Result<Pack> ParseManifest(std::string_view text, const std::string& where);

/// Reads the whole pack and holds every file to its hash. Errors, all kUsage:
///   no_such_pack  no folder, or no manifest in it
///   newer_schema  written by a newer kernelopt
///   edited_pack   a file or the manifest differs from its hash, or a kernel's
///                 text, configuration or key from its id
///   corrupt_pack  a file is missing, a field is missing, a name leaves the folder
Result<Pack> ReadPack(const std::string& folder);

/// ReadPack, and gate 1 over every kernel text. Error: kUsage "kernel_refused"
/// with gate 1's reason.
Result<Pack> CheckPack(const std::string& folder);

/// The answer of `kernelopt check-pack PACK --json`.
Json CheckPackAnswer(const std::string& folder);

/// Whether the pack may be used here. Errors: kMismatch "wrong_gpu",
/// "wrong_version" (torch and triton; a local part such as +cu128 doesn't
/// count, a difference that matters shows in the binary hash).
Status MatchEnvironment(const Pack& pack, const PackGpu& gpu, const std::string& torch,
                        const std::string& triton);

}  // namespace kernelopt
