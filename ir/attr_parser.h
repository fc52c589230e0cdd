// SPDX-License-Identifier: Apache-2.0
// Types, attribute values and attribute dictionaries of the IR's text: what functions, ops, plans
// and pass options share.
#pragma once

#include <mezzo/ir/attr.h>
#include <mezzo/ir/graph.h>
#include <mezzo/ir/lexer.h>
#include <mezzo/ir/op_info.h>
#include <mezzo/ir/shape.h>

#include <functional>

namespace mezzo::ir {

/// What attributes may refer to.
struct AttrScope {
  /// The value of a `%name` token, or fails; where it is empty, values are not allowed.
  std::function<ValueDef*(const Token&)> value;
  /// The op whose attributes are read: keys are checked against the table. Null: any key.
  const OpInfo* op = nullptr;
};

/// `tensor<2x3xf16>`.
Type parse_type(TokenStream& stream);
/// One value: number, bool, string, element type, bits, reference, resource or list.
Attr parse_attr(TokenStream& stream, const AttrScope& scope);
/// `{key = value, flag}`.
Attrs parse_attrs(TokenStream& stream, const AttrScope& scope);
/// The stream stands at a `{` that opens attributes: `key =`, `key ,` or `key }` follows.
bool at_attrs(const TokenStream& stream);
/// Reads a whole text that is one dictionary, such as the options of a pass; throws ParseError.
Attrs parse_attrs_text(std::string_view text, std::string_view name = "<text>");

/// Checks what a module, whose attributes were read at `place`, says of itself; takes the stage
/// out.
Stage take_stage(const TokenStream& stream, const Token& place, Attrs& attrs);

/// Checks the value of a constant of type `dtype` that was read at `place` and brings it to the one
/// form that is kept: floats rounded to the type, Bits for NaN and infinities only.
Attr constant_value(const TokenStream& stream, const Token& place, DType dtype, const Attr& attr);

}  // namespace mezzo::ir
