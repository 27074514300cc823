// Formatting with Python's semantics: "%s" % x, "{}".format(x), and HTML escapes.
#pragma once

#include "engine/text/jinja/runtime/runtime.h"

namespace kvgate::jinja::builtins {

// format % arguments. REQUIRES: format.is_string().
value::Value PercentFormat(runtime::Runtime& runtime, const value::Value& format,
                           const value::Value& arguments);
// format.format(*positional, **keywords). REQUIRES: format.is_string().
value::Value BraceFormat(runtime::Runtime& runtime, const value::Value& format,
                         const runtime::Arguments& arguments);
// Escapes & < > ' " as entities; markup is returned unchanged. The result is markup.
value::Value EscapeHtml(runtime::Runtime& runtime, const value::Value& value);

}  // namespace kvgate::jinja::builtins
