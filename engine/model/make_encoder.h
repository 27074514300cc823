// The parts of a random-weight model that only encoders have: their vocabulary and tensors. Such a
// model says nothing, so nothing has to be kept from being sampled (synthetic_weights.cc).
#pragma once

#include <vector>

#include "base/result.h"
#include "engine/model/make_model.h"
#include "engine/model/synthetic_vocabulary.h"
#include "engine/model/synthetic_weights.h"

namespace kvgate::model {

// WordPiece-style: [PAD], [UNK], [CLS], [SEP], [MASK], then each printable ASCII character that
// remains in lower case, letters and digits also as continuations, then syllables and words of two
// of them. Fails with kInvalidArgument if vocab_size is too small or larger than there are words.
Result<SyntheticVocabulary> MakeBertVocabulary(int vocab_size);

// Returns all tensors of an encoder in file order. REQUIRES: options.architecture is an encoder's.
std::vector<SyntheticTensor> ListEncoderTensors(const MakeModelOptions& options);

}  // namespace kvgate::model
