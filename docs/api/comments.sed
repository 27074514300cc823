#!/bin/sed -f
# Makes doxygen's comments of plain ones: those in front of a name, and those behind one in a line.
# The first line of a file begins what is said of the whole file.
1s|^// |/// @file\n/// |
1s|^/\* |/** @file\n * |
# A word alone in a line of the head is the title of what follows; code is indented further.
s|^ \* \([A-Z][a-z]*\)$| * @par \1|
s|^//   |///     |
# Headings, ends of namespaces and marks for other tools say nothing of the API.
s|^ */[/*] ----.*||
s|  // NOLINT.*||
s|^}.*\(//\|/\*\).*|}|
s|^\( *\)// |\1/// |
s|^\( *\)//$|\1///|
s|^\( *\)/\* |\1/** |
s|\([;,{})]\)\( *\)// |\1\2///< |
s|\([;,{})0-9]\)\( *\)/\* |\1\2/**< |
