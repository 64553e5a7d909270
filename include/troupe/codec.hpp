/// @file
/// Encodings of your own for the messages of an exchange: troupe::codec, and troupe::register_codec(), which adds it to
/// the values of the setting `encoding`. docs/composing.md has an example.
#pragma once

#include "troupe/algorithms/exchange/around/codec.hpp"
