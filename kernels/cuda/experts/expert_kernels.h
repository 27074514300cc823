// The launches of a mixture of experts beside its products: whom each row chose, the rows of each
// expert, and the sum of what came of it. The host knows none of that: launches follow from the
// numbers of rows and experts alone, so equal steps are equal commands.
//
// A pair is a row and one of its experts, row * num_used + i.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cuda/command_stream.h"
#include "kernels/cuda/matmul_kernels.h"
#include "kernels/expert_routing.h"

namespace kvgate::kernels::cuda {

// Pairs by expert: what products by expert go by.
struct GroupList {
  RowGroup* groups = nullptr;  // [num_groups]
  int num_groups = 0;          // as many as there can be
  int rows_of_group = 0;
};
// Groups that so many pairs of so many experts can make.
int GroupsMost(int64_t num_pairs, int num_experts, int rows_of_group);

struct RouteTask {
  ExpertRule rule;
  int num_rows = 0;
  const float* logits = nullptr;         // [num_rows, num_experts]
  const float* shared_logits = nullptr;  // [num_rows] or null
  float* shared_factors = nullptr;       // [num_rows]: their sigmoids
  float* shares = nullptr;               // [pairs]
  int* chosen = nullptr;                 // [pairs]: experts, ascending in a row
  int* order = nullptr;                  // [pairs]: the pairs by expert, ascending in an expert
  int* places = nullptr;                 // [pairs]: where in the order each is
};
// What ChooseExperts says. `alone`: groups of one pair each, in the order of the pairs; null:
// order, places and groups are LaunchGroupPairs's.
void LaunchRoute(const RouteTask& task, RowGroup* alone, CommandStream& stream);
// Groups for the two products of an expert.
void LaunchGroupPairs(const RouteTask& task, const GroupList& input, const GroupList& output,
                      CommandStream& stream);

// y[r, :] += sum_i factors[r * num_terms + i] * scale * terms[places[r * num_terms + i], :], i
// rising. Null places: where they stand; null factors: 1.
struct AddTermsTask {
  const float* terms = nullptr;  // [num_rows * num_terms, columns]
  const int* places = nullptr;
  const float* factors = nullptr;
  float scale = 1;
  int num_rows = 0;
  int num_terms = 1;
  int64_t columns = 0;
  float* y = nullptr;  // [num_rows, columns]
};
void LaunchAddTerms(const AddTermsTask& task, int num_multiprocessors, CommandStream& stream);

}  // namespace kvgate::kernels::cuda
