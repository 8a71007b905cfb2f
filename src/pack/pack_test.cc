#include "pack/pack.h"

#include <gmock/gmock.h>
#include <rapidcheck.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/hash.h"
#include "pack/kernel_file.h"
#include "pack/test_pack.h"
#include "testing/test_folder.h"

namespace kernelopt {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

void WriteText(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// Rewrites the manifest with hashes that fit: what somebody would do who
/// wants to get past them.
void Reseal(const std::string& folder, void (*change)(Json& manifest)) {
  Json manifest = Json::parse(*ReadFile(folder + "/manifest.json"));
  change(manifest);
  for (auto& [name, hash] : manifest["files"].items()) {
    if (const auto bytes = ReadFile(folder + "/" + name)) hash = Sha256Hex(*bytes);
  }
  WriteText(folder + "/manifest.json", manifest.dump());
  WriteText(folder + "/manifest.sha256", Sha256Hex(manifest.dump()) + "\n");
}

std::string KernelFile(const std::string& folder) {
  return folder + "/" + ReadPack(folder)->kernels.at(0).file;
}

TEST(PackTest, WhatIsWrittenIsRead) {
  TestFolder folder;
  const Pack written = TestPack();
  ASSERT_TRUE(WritePack(written, folder / "m.kopt/", PackMode::kNew));
  const auto read = CheckPack(folder / "m.kopt");
  ASSERT_TRUE(read) << read.error().ToString();
  const PackKernel &ours = read->kernels.at(0), &theirs = written.kernels.at(0);
  EXPECT_EQ(ours.replacement.Id(), theirs.replacement.Id());
  EXPECT_EQ(ours.replacement.steps.at(0).kernel_text, kTestKernelText);
  EXPECT_EQ(ours.replacement.steps.at(0).config, theirs.replacement.steps.at(0).config);
  EXPECT_EQ(ours.id, theirs.replacement.Id());
  EXPECT_EQ(ours.cubin, theirs.cubin);
  EXPECT_EQ(ours.modules, theirs.modules);
  EXPECT_EQ(ours.record.entry, theirs.record.entry);
  EXPECT_EQ(read->gpu, written.gpu);
  EXPECT_TRUE(read->preview);
  EXPECT_EQ(read->variants.at(0).speedup->median, 1.2);
  EXPECT_EQ(*ReadFile(folder / "m.kopt/evidence/gate3.json"), "{}");
  EXPECT_EQ(*ReadFile(folder / "m.kopt/report.html"), "<!doctype html>");

  const std::string file = *ReadFile(KernelFile(folder / "m.kopt"));
  for (const char* wanted : {"# Change: XBLOCK 256 instead of 1024", "# Made by: configuration",
                             "(1.50x)", "XBLOCK=256", "bitwise"}) {
    EXPECT_THAT(file, HasSubstr(wanted));
  }
  // Nothing is left beside it.
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
}

TEST(PackTest, ADraftHasNoSpeedupAndNoReport) {
  TestFolder folder;
  Pack draft = TestPack();
  draft.variants.at(0).speedup.reset();
  draft.report_html.clear();
  draft.evidence.clear();
  ASSERT_TRUE(WritePack(draft, folder / "draft.kopt", PackMode::kReplace));
  const auto read = CheckPack(folder / "draft.kopt");
  ASSERT_TRUE(read);
  EXPECT_FALSE(read->variants.at(0).speedup);
  EXPECT_FALSE(fs::exists(folder / "draft.kopt/report.html"));
}

TEST(PackTest, IsImmutable) {
  TestFolder folder;
  const std::string path = folder / "m.kopt";
  Pack pack = TestPack();
  ASSERT_TRUE(WritePack(pack, path, PackMode::kNew));
  EXPECT_TRUE(WritePack(pack, path, PackMode::kNew));  // the same one
  pack.policy = "bitwise";
  const auto other = WritePack(pack, path, PackMode::kNew);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, "pack_exists");
  EXPECT_EQ(CheckPack(path)->policy, "strict");
  ASSERT_TRUE(WritePack(pack, path, PackMode::kReplace));
  EXPECT_EQ(CheckPack(path)->policy, "bitwise");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);

  // A damaged pack of the same manifest is not "the same one".
  WriteText(KernelFile(path), "edited");
  EXPECT_EQ(WritePack(pack, path, PackMode::kNew).error().code, "pack_exists");
  ASSERT_TRUE(WritePack(pack, path, PackMode::kReplace));
  EXPECT_TRUE(CheckPack(path));
}

TEST(PackTest, AFolderThatIsNoPackIsLeftAlone) {
  TestFolder folder;
  fs::create_directory(folder / "mine");
  WriteText(folder / "mine/thesis.tex", "text");
  for (const PackMode mode : {PackMode::kNew, PackMode::kReplace}) {
    EXPECT_EQ(WritePack(TestPack(), folder / "mine", mode).error().code, "pack_exists");
  }
  EXPECT_EQ(*ReadFile(folder / "mine/thesis.tex"), "text");
  fs::create_directory(folder / "empty");
  EXPECT_TRUE(WritePack(TestPack(), folder / "empty", PackMode::kNew));
}

TEST(PackTest, RefusesToWriteWhatNobodyCouldUse) {
  TestFolder folder;
  for (auto change : std::vector<void (*)(Pack&)>{
           [](Pack& p) { p.kernels[0].replacement.form = ReplacementForm::kCallObject; },
           [](Pack& p) { p.kernels[0].replacement.workspaces.push_back({}); },
           [](Pack& p) { p.kernels[0].replacement.steps.clear(); },
           [](Pack& p) { p.kernels.push_back(p.kernels[0]); },
           [](Pack& p) {
             p.kernels.push_back(p.kernels[0]);
             p.kernels[1].modules = {"another"};
           },
           [](Pack& p) { p.evidence["../../x"] = ""; }}) {
    Pack pack = TestPack();
    change(pack);
    const auto status = WritePack(pack, folder / "m.kopt", PackMode::kNew);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, "bad_pack");
    EXPECT_FALSE(fs::exists(folder / "m.kopt"));
  }
}

TEST(PackTest, ReadingHasACodeForEachFault) {
  struct Case {
    const char* name;
    void (*harm)(const std::string& folder);
    const char* code;
  };
  for (const Case& c : std::vector<Case>{
           {"none", [](const std::string&) {}, ""},
           {"no folder", [](const std::string& f) { fs::remove_all(f); }, "no_such_pack"},
           {"no manifest", [](const std::string& f) { fs::remove(f + "/manifest.json"); },
            "no_such_pack"},
           {"no hash", [](const std::string& f) { fs::remove(f + "/manifest.sha256"); },
            "corrupt_pack"},
           {"cut manifest",
            [](const std::string& f) {
              WriteText(f + "/manifest.json", ReadFile(f + "/manifest.json")->substr(0, 300));
            },
            "corrupt_pack"},
           {"edited manifest",
            [](const std::string& f) {
              Json manifest = Json::parse(*ReadFile(f + "/manifest.json"));
              manifest["preview"] = false;
              WriteText(f + "/manifest.json", manifest.dump());
            },
            "edited_pack"},
           {"edited kernel",
            [](const std::string& f) { WriteText(KernelFile(f), "print('hello')\n"); },
            "edited_pack"},
           {"no kernel", [](const std::string& f) { fs::remove(KernelFile(f)); }, "corrupt_pack"},
           {"a link",
            [](const std::string& f) {
              const std::string file = KernelFile(f);
              fs::rename(file, f + "/elsewhere");
              fs::create_symlink(f + "/elsewhere", file);
            },
            "corrupt_pack"},
           {"newer", [](const std::string& f) { Reseal(f, [](Json& m) { m["schema"] = 99; }); },
            "newer_schema"},
           {"no schema",
            [](const std::string& f) { Reseal(f, [](Json& m) { m.erase("schema"); }); },
            "corrupt_pack"},
           {"leaves the folder",
            [](const std::string& f) {
              Reseal(f, [](Json& m) { m["files"]["../../etc/passwd"] = "00"; });
            },
            "corrupt_pack"},
           {"file without a hash",
            [](const std::string& f) {
              Reseal(f, [](Json& m) { m["kernels"][0]["file"] = "kernels/other.py"; });
            },
            "corrupt_pack"},
           {"another form",
            [](const std::string& f) {
              Reseal(f, [](Json& m) { m["kernels"][0]["form"] = "call_object"; });
            },
            "corrupt_pack"}}) {
    SCOPED_TRACE(c.name);
    TestFolder folder;
    const std::string path = folder / "m.kopt";
    ASSERT_TRUE(WritePack(TestPack(), path, PackMode::kNew));
    c.harm(path);
    const auto pack = CheckPack(path);
    EXPECT_EQ(pack ? "" : pack.error().code, c.code) << (pack ? "" : pack.error().ToString());
    const Json answer = CheckPackAnswer(path);
    EXPECT_EQ(answer["ok"], pack.has_value());
    EXPECT_EQ(answer["reason"], c.code);
    EXPECT_EQ(answer["manifest"].is_null(), !pack.has_value());
  }
}

TEST(PackTest, AnyChangedByteIsFound) {
  TestFolder folder;
  const std::string path = folder / "m.kopt";
  ASSERT_TRUE(WritePack(TestPack(), path, PackMode::kNew));
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  EXPECT_TRUE(rc::check([&] {
    const std::string file = *rc::gen::elementOf(files);
    const std::string before = *ReadFile(file);
    std::string after = before;
    const auto at = *rc::gen::inRange<size_t>(0, before.size());
    after[at] = static_cast<char>(after[at] ^ *rc::gen::inRange(1, 256));
    WriteText(file, after);
    const bool accepted = CheckPack(path).has_value();
    WriteText(file, before);
    RC_ASSERT(!accepted);
  }));
  EXPECT_TRUE(CheckPack(path));
}

TEST(PackTest, AReplacementThatDoesNotFitItsIdIsFoundBehindFreshHashes) {
  struct Case {
    const char* name;
    void (*change)(Json& kernel);
  };
  TestFolder folder;
  const std::string path = folder / "m.kopt";
  for (const Case& c : std::vector<Case>{
           {"key", [](Json& k) { k["kernel_key"] = std::string(64, 'f'); }},
           {"constexpr", [](Json& k) { k["config"]["constexprs"]["XBLOCK"] = 512; }},
           {"another constexpr", [](Json& k) { k["config"]["constexprs"]["RBLOCK"] = 1; }},
           {"warps", [](Json& k) { k["config"]["num_warps"] = 8; }},
           {"stages", [](Json& k) { k["config"]["num_stages"] = 2; }},
           {"registers", [](Json& k) { k["config"]["maxnreg"] = nullptr; }},
           {"id", [](Json& k) { k["id"] = std::string(64, '0'); }},
           {"no id", [](Json& k) { k["id"] = ""; }}}) {
    SCOPED_TRACE(c.name);
    ASSERT_TRUE(WritePack(TestPack(), path, PackMode::kReplace));
    static void (*change)(Json&);
    change = c.change;
    Reseal(path, [](Json& manifest) { change(manifest["kernels"][0]); });
    const auto pack = CheckPack(path);
    ASSERT_FALSE(pack);
    EXPECT_EQ(pack.error().code, "edited_pack");
    EXPECT_THAT(pack.error().message, HasSubstr("id"));
  }
  // What people read about it is not part of what it is.
  ASSERT_TRUE(WritePack(TestPack(), path, PackMode::kReplace));
  Reseal(path, [](Json& manifest) { manifest["kernels"][0]["change"] = "nothing"; });
  EXPECT_TRUE(CheckPack(path));
}

TEST(PackTest, AnyChangedByteOfAKernelTextIsFoundBehindFreshHashes) {
  TestFolder folder;
  const std::string path = folder / "m.kopt";
  ASSERT_TRUE(WritePack(TestPack(), path, PackMode::kNew));
  const std::string file = KernelFile(path);
  const std::string before = *ReadFile(file);
  const size_t begin = before.find(kTestKernelText);
  EXPECT_TRUE(rc::check([&] {
    std::string after = before;
    const auto at = *rc::gen::inRange<size_t>(begin, before.size());
    after[at] = static_cast<char>(after[at] ^ *rc::gen::inRange(1, 256));
    WriteText(file, after);
    Reseal(path, [](Json&) {});
    const auto pack = CheckPack(path);
    RC_ASSERT(!pack);
    RC_ASSERT(pack.error().code == "edited_pack");
  }));
}

TEST(PackTest, GateOneHoldsForTheTextsOfAPack) {
  for (const char* text :
       {"@triton.jit\ndef triton_poi_fused_add_0(in_ptr0, out_ptr0, xnumel, XBLOCK : "
        "tl.constexpr):\n    import os\n",
        "import os\n@triton.jit\ndef triton_poi_fused_add_0(in_ptr0, out_ptr0, xnumel, XBLOCK : "
        "tl.constexpr):\n    pass\n",
        "@triton.jit\ndef triton_poi_fused_add_0(in_ptr0, out_ptr0, xnumel=exec('1'), XBLOCK : "
        "tl.constexpr = 1):\n    pass\n",
        "@triton.jit\ndef another(in_ptr0):\n    pass\n", "not python ("}) {
    TestFolder folder;
    Pack pack = TestPack();
    pack.kernels[0].replacement.steps[0].kernel_text = text;
    ASSERT_TRUE(WritePack(pack, folder / "m.kopt", PackMode::kNew));
    const auto checked = CheckPack(folder / "m.kopt");
    ASSERT_FALSE(checked) << text;
    EXPECT_EQ(checked.error().code, "kernel_refused");
    EXPECT_THAT(checked.error().where, HasSubstr("kernels/"));
  }
}

TEST(PackTest, IsForOneGpuAndItsVersions) {
  const Pack pack = TestPack();
  struct Case {
    PackGpu gpu;
    const char *torch, *triton, *code;
  };
  for (const Case& c :
       std::vector<Case>{{pack.gpu, "2.11.0+cu128", "3.6.0", ""},
                         {pack.gpu, "2.11.0", "3.6.0", ""},
                         {pack.gpu, "2.11.1", "3.6.0", "wrong_version"},
                         {pack.gpu, "2.11.0", "3.7.0", "wrong_version"},
                         {{"NVIDIA H100", 90, 132, ""}, "2.11.0", "3.6.0", "wrong_gpu"},
                         {{"NVIDIA H200", 100, 132, ""}, "2.11.0", "3.6.0", "wrong_gpu"},
                         {{"NVIDIA H200", 90, 78, ""}, "2.11.0", "3.6.0", "wrong_gpu"},
                         {{"NVIDIA H200", 90, 132, "3g.71gb"}, "2.11.0", "3.6.0", "wrong_gpu"}}) {
    const Status status = MatchEnvironment(pack, c.gpu, c.torch, c.triton);
    EXPECT_EQ(status ? "" : status.error().code, c.code);
    EXPECT_TRUE(status || status.error().kind == ErrorKind::kMismatch);
  }
}

TEST(PackTest, ACutManifestIsCorruptAtEveryLength) {
  TestFolder folder;
  ASSERT_TRUE(WritePack(TestPack(), folder / "m.kopt", PackMode::kNew));
  const std::string manifest = *ReadFile(folder / "m.kopt/manifest.json");
  ASSERT_TRUE(ParseManifest(manifest, "m"));
  for (size_t i = 0; i + 2 < manifest.size(); i += 7) {
    const auto pack = ParseManifest(manifest.substr(0, i), "m");
    ASSERT_FALSE(pack);
    EXPECT_EQ(pack.error().code, "corrupt_pack");
  }
}

TEST(KernelFileTest, NamesStayInsideThePack) {
  for (const char* name : {"report.html", "kernels/a_1.py", "evidence/gate3-default+train.json"}) {
    EXPECT_TRUE(IsPackFileName(name)) << name;
  }
  for (const char* name :
       {"", "/etc/passwd", "..", "../x", "kernels/../../x", "kernels//x", "a/b/c", ".hidden",
        "kernels/.x", "kernels\\x", "C:x", "a b", "x\n", "kernels/"}) {
    EXPECT_FALSE(IsPackFileName(name)) << name;
  }
  EXPECT_FALSE(IsPackFileName(std::string_view("a\0b", 3)));
}

TEST(KernelFileTest, TheTextComesBackWhateverItIs) {
  EXPECT_TRUE(rc::check([](const std::string& text, const std::string& change,
                           const std::string& origin, const std::string& name) {
    PackKernel kernel = TestPack().kernels[0];
    kernel.replacement.steps[0].kernel_text = text;
    kernel.replacement.change = change;
    kernel.replacement.origin = origin;
    kernel.name = name;
    const std::string file = KernelFileText(kernel);
    RC_ASSERT(KernelTextOf(file) == text);
    // Nothing of the comment is code.
    const std::string header = file.substr(0, file.size() - text.size() - 1);
    for (size_t i = 0; i < header.size(); i = header.find('\n', i) + 1) {
      RC_ASSERT(header[i] == '#');
    }
    RC_ASSERT(header.find('\r') == std::string::npos);
    RC_ASSERT(IsPackFileName("kernels/" + KernelFileStem(kernel) + ".py"));
  }));
}

TEST(KernelFileTest, ATextWithoutOurCommentIsTakenWhole) {
  for (const char* text : {"", "# only", "# a\ncode", "code\n# a\n\n", "\n\ncode"}) {
    EXPECT_EQ(KernelTextOf(text), text);
  }
  EXPECT_EQ(KernelTextOf("# a\n# b\n\n# c\n\ncode"), "# c\n\ncode");
}

}  // namespace
}  // namespace kernelopt
