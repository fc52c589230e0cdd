// SPDX-License-Identifier: Apache-2.0
// MEZZO_DEBUG as the tool reads it: a word that the command cannot answer is told, not ignored.
#include <mezzo/passes/pass.h>
#include <mezzo/runtime/module_pipeline.h>
#include <mezzo/runtime/tool/commands.h>

#include <cstdio>

namespace mezzo::tool {

ir::DebugOptions debug_options(const char* command, std::span<const ir::DebugArea> areas,
                               const std::vector<std::string>& dumps) {
  ir::DebugOptions options = ir::debug_options_from_environment(passes::pass_names());
  options.dump.insert(options.dump.end(), dumps.begin(), dumps.end());
  runtime::warn_of_unserved(options);
  for (const std::string& word : options.words_outside(areas))
    std::fprintf(stderr, "warning: MEZZO_DEBUG: '%s' shows nothing in `mezzo %s`\n", word.c_str(),
                 command);
  return options;
}

}  // namespace mezzo::tool
