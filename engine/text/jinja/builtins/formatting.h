// Formatting as Python does it: "%s" % x, "{}".format(x), and HTML escapes.
#pragma once

#include "engine/text/jinja/runtime/runtime.h"

namespace kvgate::jinja {

// format % arguments. REQUIRES: format.is_string().
Value PercentFormat(Runtime& runtime, const Value& format, const Value& arguments);
// format.format(*positional, **keywords). REQUIRES: format.is_string().
Value BraceFormat(Runtime& runtime, const Value& format, const Arguments& arguments);
// & < > ' " as entities; markup stays as it is. The result is markup.
Value EscapeHtml(Runtime& runtime, const Value& value);

}  // namespace kvgate::jinja
