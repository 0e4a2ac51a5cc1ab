// The command line, the environment and the configuration file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "cli/help.h"
#include "cli/options.h"
#include "cli/verb_table.h"
#include "fakes/temp_folder.h"
#include "unit/thrown_error.h"

namespace slabload {
namespace {

using slabload::testing::TempFolder;
using slabload::testing::thrown_error;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using Variables = std::map<std::string, std::string>;

CommandLine parse(const std::vector<std::string>& arguments, const Variables& variables = {}) {
  return parse_command_line(arguments, [&](const std::string& name) -> std::optional<std::string> {
    auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

std::string refusal(const std::vector<std::string>& arguments, const Variables& variables = {}) {
  Error error = thrown_error([&] { parse(arguments, variables); });
  EXPECT_EQ(error.status(), Status::usage) << error.message();
  return error.message();
}

TEST(CliOptions, HasTheDocumentedDefaults) {
  RunOptions o = parse({"load", "m.h5"}).options;
  EXPECT_EQ(o.verb, "load");
  EXPECT_EQ(o.checkpoint, "m.h5");
  EXPECT_EQ(o.mesh, "");
  EXPECT_EQ(o.layout, "fsdp2");
  EXPECT_EQ(o.strategy, "auto");
  EXPECT_EQ(o.device, "auto");
  EXPECT_EQ(o.fabric, "auto");
  EXPECT_EQ(o.io, IoMode::independent);
  EXPECT_EQ(o.staging, 268435456u);
  EXPECT_EQ(o.min_read, 1048576u);
  EXPECT_EQ(o.verify, VerifyMode::checksum);
  EXPECT_EQ(o.timeout_s, 300);
  EXPECT_FALSE(o.cast.has_value());
  EXPECT_THAT(o.selection.select, IsEmpty());
}

TEST(CliOptions, TakesEveryOptionOfLoad) {
  CommandLine line = parse({"load",
                            "--mesh",
                            "dp_replicate=2,dp_shard=4",
                            "--layout=rules.json",
                            "m.h5",
                            "--strategy",
                            "slab",
                            "--device",
                            "host",
                            "--fabric",
                            "mpi",
                            "--io",
                            "direct",
                            "--hint",
                            "a=1",
                            "--hint",
                            "b=x=y",
                            "--staging",
                            "64MiB",
                            "--min-read",
                            "1GiB",
                            "--select",
                            "*.w",
                            "--exclude",
                            "a*",
                            "--select",
                            "b",
                            "--expect",
                            "e.tsv",
                            "--cast",
                            "fp16",
                            "--verify",
                            "shards",
                            "--timeout",
                            "2min",
                            "--report",
                            "r.json",
                            "--stage-out",
                            "out"});
  EXPECT_FALSE(line.help);
  const RunOptions& o = line.options;
  EXPECT_EQ(o.checkpoint, "m.h5");
  EXPECT_EQ(o.mesh, "dp_replicate=2,dp_shard=4");
  EXPECT_EQ(o.layout, "rules.json");
  EXPECT_EQ(o.strategy, "slab");
  EXPECT_EQ(o.device, "host");
  EXPECT_EQ(o.fabric, "mpi");
  EXPECT_EQ(o.io, IoMode::direct);
  EXPECT_THAT(o.hints, ElementsAre("a=1", "b=x=y"));
  EXPECT_EQ(o.staging, 67108864u);
  EXPECT_EQ(o.min_read, 1073741824u);
  EXPECT_THAT(o.selection.select, ElementsAre("*.w", "b"));
  EXPECT_THAT(o.selection.exclude, ElementsAre("a*"));
  EXPECT_EQ(o.expect, "e.tsv");
  EXPECT_EQ(o.cast, DType::f16);
  EXPECT_EQ(o.verify, VerifyMode::shards);
  EXPECT_EQ(o.timeout_s, 120);
  EXPECT_EQ(o.report, "r.json");
  EXPECT_EQ(o.stage_out, "out");
}

TEST(CliOptions, TakesTheOptionsOfTheOtherVerbs) {
  RunOptions o = parse({"generate", "--table", "t.tsv", "--out", "m.h5", "--seed", "18446744073709551615",
                        "--scale", "8", "--force"})
                     .options;
  EXPECT_EQ(o.table, "t.tsv");
  EXPECT_EQ(o.out, "m.h5");
  EXPECT_EQ(o.seed, UINT64_MAX);
  EXPECT_EQ(o.scale, 8u);
  EXPECT_TRUE(o.force);
  o = parse({"import", "src", "--out", "m.h5"}).options;
  EXPECT_EQ(o.checkpoint, "src");
  EXPECT_FALSE(o.force);
  o = parse({"inspect", "m.h5", "--json", "--tensors"}).options;
  EXPECT_TRUE(o.json);
  EXPECT_TRUE(o.tensors);
  o = parse({"plan", "--table", "t.tsv", "--ranks", "16384", "--explain", "w", "--json"}).options;
  EXPECT_EQ(o.ranks, 16384u);
  EXPECT_EQ(o.explain, "w");
  EXPECT_TRUE(parse({"plan", "m.h5", "--full"}).options.full);
  for (const char* whole : {"--full", "--statistics", "--svg=p.svg"})
    EXPECT_THAT(thrown_error([&] { parse({"plan", "m.h5", "--explain", "w", whole}); }).message(),
                HasSubstr("--explain is about one tensor"));
  EXPECT_EQ(o.checkpoint, "");
  o = parse({"verify", "m.h5", "--against", "m.safetensors"}).options;
  EXPECT_EQ(o.against, "m.safetensors");
  o = parse({"bench", "m.h5", "--strategies", "slab,rank0-full", "--repeat", "3", "--warmup", "0", "--cache",
             "cold", "--json", "b.json", "--csv", "b.csv"})
          .options;
  EXPECT_THAT(o.strategies, ElementsAre("slab", "rank0-full"));
  EXPECT_EQ(o.repeat, 3u);
  EXPECT_EQ(o.warmup, 0u);
  EXPECT_TRUE(o.cold);
  EXPECT_EQ(o.json_file, "b.json");
  EXPECT_EQ(o.csv_file, "b.csv");
  EXPECT_FALSE(o.json);
}

TEST(CliOptions, BenchComparesAllStrategiesUnlessTold) {
  EXPECT_THAT(parse({"bench", "m"}).options.strategies,
              ElementsAre("slab", "rank0-broadcast", "rank0-full", "every-rank"));
  EXPECT_THAT(parse({"bench", "m", "--strategy", "every-rank"}).options.strategies,
              ElementsAre("every-rank"));
  EXPECT_THAT(refusal({"bench", "m", "--strategy", "slab", "--strategies", "slab"}), HasSubstr("both"));
  EXPECT_THAT(refusal({"bench", "m", "--strategies", "slab,slab"}), HasSubstr("twice"));
  EXPECT_THAT(refusal({"bench", "m", "--strategies", "slab,,rank0-full"}), HasSubstr("--strategies"));
}

TEST(CliOptions, CommandLineBeatsEnvironmentBeatsFile) {
  TempFolder folder;
  std::string file = folder.write(
      "run.ini", "staging = 1MiB\nlayout = replicate\nio = direct\nselect = a\nselect = b\nrepeat = 9\n");
  RunOptions o = parse({"load", "m", "--config", file}).options;
  EXPECT_EQ(o.staging, 1048576u);
  EXPECT_EQ(o.layout, "replicate");
  EXPECT_EQ(o.io, IoMode::direct);
  EXPECT_THAT(o.selection.select, ElementsAre("a", "b"));  // and bench's repeat is passed over
  Variables variables{{"SLABLOAD_STAGING", "2MiB"},
                      {"SLABLOAD_LAYOUT", "fsdp2"},
                      {"SLABLOAD_REPEAT", "7"},
                      {"SLABLOAD_MIN_READ", "5"}};
  o = parse({"load", "m", "--config", file, "--staging", "3MiB"}, variables).options;
  EXPECT_EQ(o.staging, 3145728u);
  EXPECT_EQ(o.layout, "fsdp2");
  EXPECT_EQ(o.io, IoMode::direct);
  EXPECT_EQ(o.min_read, 5u);
  // A list on the command line takes the place of the file's.
  o = parse({"load", "m", "--config", file, "--select", "c"}).options;
  EXPECT_THAT(o.selection.select, ElementsAre("c"));
  // The file may be named by the environment; an empty variable is no variable.
  o = parse({"load", "m"}, {{"SLABLOAD_CONFIG", file}, {"SLABLOAD_STAGING", ""}}).options;
  EXPECT_EQ(o.staging, 1048576u);
}

TEST(CliOptions, FlagsFromEnvironmentAndFile) {
  EXPECT_TRUE(parse({"inspect", "m"}, {{"SLABLOAD_JSON", "1"}}).options.json);
  EXPECT_FALSE(parse({"inspect", "m"}, {{"SLABLOAD_JSON", "0"}}).options.json);
  EXPECT_TRUE(parse({"inspect", "m", "--json"}, {{"SLABLOAD_JSON", "0"}}).options.json);
  EXPECT_THAT(refusal({"inspect", "m"}, {{"SLABLOAD_JSON", "maybe"}}), HasSubstr("SLABLOAD_JSON"));
  TempFolder folder;
  EXPECT_TRUE(parse({"inspect", "m", "--config", folder.write("c.ini", "tensors = true\n")}).options.tensors);
}

TEST(CliOptions, ErrorsNameWhereTheValueCameFrom) {
  EXPECT_THAT(refusal({"load", "m", "--staging", "x"}), HasSubstr("--staging: 'x'"));
  EXPECT_THAT(refusal({"load", "m"}, {{"SLABLOAD_STAGING", "x"}}), HasSubstr("SLABLOAD_STAGING: 'x'"));
  EXPECT_THAT(refusal({"load", "m"}, {{"SLABLOAD_MESH", "x"}}), HasSubstr("SLABLOAD_MESH"));
  TempFolder folder;
  std::string file = folder.write("run.ini", "staging = x\n");
  EXPECT_THAT(refusal({"load", "m", "--config", file}), HasSubstr("run.ini: staging: 'x'"));
  EXPECT_THAT(refusal({"load", "m", "--config", folder.write("b.ini", "stagin = 1\n")}),
              AllOf(HasSubstr("b.ini"), HasSubstr("'stagin'"), HasSubstr("did you mean staging?")));
  EXPECT_THAT(refusal({"load", "m", "--config", folder.write("c.ini", "no equals sign\n")}),
              HasSubstr("c.ini"));
  EXPECT_THAT(refusal({"load", "m", "--config", folder.write("d.ini", "staging = 1\nstaging = 2\n")}),
              HasSubstr("twice"));
}

TEST(CliOptions, AMissingConfigurationFileIsAFileError) {
  TempFolder folder;
  for (const std::string& path : {folder / "none.ini", folder.path()}) {
    Error error = thrown_error([&] { parse({"load", "m", "--config", path}); });
    EXPECT_EQ(error.status(), Status::file);
    EXPECT_THAT(error.message(), HasSubstr(path));
  }
}

TEST(CliOptions, RefusesBadValues) {
  struct {
    std::vector<std::string> arguments;
    const char* reason;
  } cases[] = {
      {{"load", "m", "--staging", "0"}, "--staging"},
      {{"load", "m", "--staging", "-1"}, "--staging"},
      {{"load", "m", "--min-read", "1025MiB"}, "--min-read"},
      {{"load", "m", "--timeout", "0"}, "--timeout"},
      {{"load", "m", "--timeout", "5 days"}, "--timeout"},
      {{"load", "m", "--mesh", "dp_shard"}, "--mesh"},
      {{"load", "m", "--mesh", "a=2,a=2"}, "--mesh"},
      {{"load", "m", "--layout", "fsdp3"}, "--layout"},
      {{"load", "m", "--strategy", "slabs"}, "--strategy"},
      {{"load", "m", "--io", "posix"}, "--io"},
      {{"load", "m", "--hint", "novalue"}, "--hint"},
      {{"load", "m", "--hint", "=x"}, "--hint"},
      {{"load", "m", "--cast", "f64"}, "--cast"},
      {{"load", "m", "--verify", "all"}, "--verify"},
      {{"bench", "m", "--repeat", "0"}, "--repeat"},
      {{"bench", "m", "--repeat", "1.5"}, "--repeat"},
      {{"bench", "m", "--warmup", "-1"}, "--warmup"},
      {{"bench", "m", "--cache", "hot"}, "--cache"},
      {{"plan", "m", "--ranks", "0"}, "--ranks"},
      {{"plan", "m", "--ranks", "2147483648"}, "--ranks"},
      {{"generate", "--table", "t", "--out", "o", "--scale", "0"}, "--scale"},
      {{"generate", "--table", "t", "--out", "o", "--seed", "x"}, "--seed"},
      {{"load", "m", "--staging"}, "--staging"},
      {{"load", "m", "--staging", "1", "--staging", "2"}, "given twice"},
      {{"load", "m", "--device", "tpu"}, "--device"},
      {{"load", "m", "--select", "a["}, "--select: 'a[' is not a glob"},
      {{"load", "m", "--select", "a", "--select", "b[]"}, "--select: 'b[]' is not a glob"},
      {{"verify", "m", "--exclude", "x\\"}, "--exclude: 'x\\x5c' is not a glob"},
      {{"load", "m", "--exclude", ""}, "--exclude"},
      {{"plan", "m", "--cost", "fs=1GB/s,request=1ms,fs=2GB/s"}, "--cost: 'fs' is given twice"},
      {{"plan", "m", "--cost", ""}, "--cost"},
  };
  for (const auto& c : cases) EXPECT_THAT(refusal(c.arguments), HasSubstr(c.reason));
}

TEST(CliOptions, WhatThisVersionLacksIsRefusedAsSuch) {
  EXPECT_THAT(refusal({"bench", "m", "--timeline", "t.json"}),
              HasSubstr("--timeline is not part of this version"));
  EXPECT_THAT(refusal({"bench", "m", "--sweep", "staging=1"}),
              HasSubstr("--sweep is not part of this version"));
}

TEST(CliOptions, DeviceFabricAndSlots) {
  EXPECT_THAT(refusal({"load", "m", "--device", "gpu"}), HasSubstr("'gpu' is not auto, host or cuda"));
  EXPECT_THAT(refusal({"load", "m", "--fabric", "ucx"}), HasSubstr("'ucx' is not auto, mpi or nccl"));
  EXPECT_THAT(refusal({"load", "m", "--slots", "0"}), HasSubstr("from 1 to 16"));
  EXPECT_THAT(refusal({"load", "m", "--slots", "17"}), HasSubstr("from 1 to 16"));
  for (const char* bytes : {"0", "4095", "5000", "1GiB", "2KiB"}) {
    EXPECT_THAT(refusal({"load", "m", "--slot-bytes", bytes}), HasSubstr("multiple of 4KiB below 1GiB"))
        << bytes;
  }
  RunOptions options = parse_command_line({"load", "m", "--device", "cuda", "--fabric", "nccl", "--slots",
                                           "3", "--slot-bytes", "8MiB"})
                           .options;
  EXPECT_EQ(options.device, "cuda");
  EXPECT_EQ(options.fabric, "nccl");
  EXPECT_EQ(options.slots, 3u);
  EXPECT_EQ(options.slot_bytes, 8u << 20);
}

TEST(CliOptions, EachVerbTakesItsOwnOptionsOnly) {
  EXPECT_THAT(refusal({"load", "m", "--repeat", "5"}), AllOf(HasSubstr("load"), HasSubstr("--repeat")));
  EXPECT_THAT(refusal({"inspect", "m", "--mesh", "a=1"}), HasSubstr("--mesh"));
  EXPECT_THAT(refusal({"generate", "--table", "t", "--out", "o", "--layout", "fsdp2"}),
              HasSubstr("--layout"));
  EXPECT_THAT(refusal({"load", "m", "--stagin", "5"}),
              AllOf(HasSubstr("--stagin"), HasSubstr("did you mean --staging?")));
  EXPECT_THAT(refusal({"load", "m", "--zzzzzz", "5"}), Not(HasSubstr("did you mean")));
  // No abbreviations: a later option could change what they mean.
  EXPECT_THAT(refusal({"load", "m", "--rep", "r.json"}), HasSubstr("--rep"));
  EXPECT_THAT(refusal({"load", "m", "-x"}), HasSubstr("unknown option"));
}

TEST(CliOptions, PositionalsAreCounted) {
  EXPECT_THAT(refusal({"load"}), AllOf(HasSubstr("CKPT is missing"), HasSubstr("usage: slabload load")));
  EXPECT_THAT(refusal({"load", "a", "b"}), HasSubstr("'b'"));
  EXPECT_THAT(refusal({"generate", "a", "--table", "t", "--out", "o"}), HasSubstr("'a'"));
  EXPECT_THAT(refusal({"generate", "--out", "o"}), HasSubstr("--table is missing"));
  EXPECT_THAT(refusal({"generate", "--table", "t"}), HasSubstr("--out is missing"));
  EXPECT_THAT(refusal({"import", "--out", "o"}), HasSubstr("SRC is missing"));
  EXPECT_THAT(refusal({"import", "s"}), HasSubstr("--out is missing"));
  EXPECT_THAT(refusal({"plan"}), HasSubstr("CKPT or --table"));
  EXPECT_THAT(refusal({"plan", "m", "--table", "t"}), HasSubstr("both"));
  EXPECT_THAT(refusal({"version", "x"}), HasSubstr("'x'"));
  EXPECT_EQ(parse({"load", "--", "--odd-name"}).options.checkpoint, "--odd-name");
}

TEST(CliOptions, TheVerbComesFirst) {
  EXPECT_THAT(refusal({}), HasSubstr("no verb"));
  EXPECT_THAT(refusal({"laod", "m"}), AllOf(HasSubstr("'laod'"), HasSubstr("did you mean load?")));
  EXPECT_THAT(refusal({"--staging", "5", "load"}), HasSubstr("verb comes first"));
  EXPECT_THAT(refusal({"x\x1b"}), HasSubstr("x\\x1b"));
}

TEST(CliOptions, HelpAsksForNothingElse) {
  for (const char* flag : {"--help", "-h"}) {
    CommandLine line = parse({"load", flag});
    EXPECT_TRUE(line.help);
    EXPECT_EQ(line.help_topic, "load");
    line = parse({flag});
    EXPECT_TRUE(line.help);
    EXPECT_EQ(line.help_topic, "");
  }
  CommandLine line = parse({"help", "plan"});
  EXPECT_TRUE(line.help);
  EXPECT_EQ(line.help_topic, "plan");
  EXPECT_TRUE(parse({"help"}).help);
  EXPECT_THAT(refusal({"help", "nosuch"}), HasSubstr("'nosuch'"));
  EXPECT_EQ(parse({"--version"}).options.verb, "version");
  EXPECT_EQ(parse({"version"}).options.verb, "version");
}

TEST(CliOptions, KnowsWhichVerbsUseMpi) {
  for (const char* verb : {"generate", "import", "load", "verify", "bench"})
    EXPECT_TRUE(needs_mpi(verb)) << verb;
  for (const char* verb : {"inspect", "plan", "help", "version", "nosuch", ""})
    EXPECT_FALSE(needs_mpi(verb)) << verb;
}

TEST(CliHelp, EveryVerbHasUsageOptionsAndAnExample) {
  for (const VerbSpec& verb : verb_table()) {
    if (!verb.available) {
      EXPECT_EQ(thrown_error([&] { help_text(verb.name); }).status(), Status::usage);
      EXPECT_THAT(help_text(""), Not(HasSubstr(std::string("\n  ") + verb.name)));
      continue;
    }
    std::string text = help_text(verb.name);
    EXPECT_THAT(text, AllOf(HasSubstr("usage: slabload " + std::string(verb.name)), HasSubstr("Example:\n  "),
                            HasSubstr(verb.example)));
    EXPECT_THAT(help_text(""), HasSubstr(std::string("\n  ") + verb.name));
    for (const OptionSpec& option : option_table()) {
      std::string name =
          option.name == std::string("help") ? "--help" : "\n  --" + std::string(option.name) + " ";
      if (option.verbs & verb.bit) {
        EXPECT_THAT(text, HasSubstr(name));
      }
    }
    std::size_t begin = 0;
    for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
      EXPECT_LE(end - begin, 110u) << text.substr(begin, end - begin);
    }
  }
}

// The examples that are printed must parse.
TEST(CliHelp, ExamplesAreValid) {
  for (const VerbSpec& verb : verb_table()) {
    if (!verb.available) continue;
    std::string text = verb.example;
    std::vector<std::string> words;
    text = text.substr(text.find("slabload ") + 9);
    for (std::size_t at = 0; at != std::string::npos;) {
      std::size_t space = text.find(' ', at);
      words.push_back(text.substr(at, space == std::string::npos ? space : space - at));
      at = space == std::string::npos ? space : space + 1;
    }
    EXPECT_EQ(parse(words).options.verb, verb.name);
  }
}

TEST(CliHelp, DefaultsInTheTextAreTheRealOnes) {
  std::string text = help_text("bench");
  EXPECT_THAT(text,
              AllOf(HasSubstr("(default: 256MiB)"), HasSubstr("(default: 1MiB)"), HasSubstr("(default: 5)"),
                    HasSubstr("(default: 1)"), HasSubstr("KiB MiB GiB"), HasSubstr("SLABLOAD_<OPTION>")));
}

TEST(CliHelp, VersionIsOneLine) {
  EXPECT_TRUE(version_text().starts_with("slabload "));
  EXPECT_TRUE(version_text().ends_with("\n"));
}

}  // namespace
}  // namespace slabload
