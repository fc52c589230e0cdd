// SPDX-License-Identifier: Apache-2.0
// Bodies of kernels: scopes, registers, labels, calls.
#pragma once

#include <ptx/parser.h>

namespace mezzo::ptx::detail {

/// Reads from behind the `{` up to behind its `}` and decodes into `kernel`. Functions that are
/// called are read anew at each call, with registers of their own. Throws ParseError.
void parse_body(TokenReader& in, const std::vector<Token>& tokens, const SourceText& source,
                const ModuleNames& names, const std::vector<Declaration>& parameters,
                KernelData& kernel);

}  // namespace mezzo::ptx::detail
