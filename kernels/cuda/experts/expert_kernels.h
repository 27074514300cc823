// The launches of a mixture of experts besides its products: selecting each row's experts, grouping
// rows by expert, and summing the outputs. The host does not know these results: launches depend
// only on the numbers of rows and experts, so that equal steps have equal commands.
//
// A pair is a row and one of its experts, with the index row * num_used + i.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cuda/device/command_stream.h"
#include "kernels/cuda/matmul/matmul_kernels.h"
#include "kernels/expert_routing.h"

namespace kvgate::kernels::cuda::experts {

// Pairs grouped by expert, the input of the products.
struct GroupList {
  matmul::RowGroup* groups = nullptr;  // [num_groups]
  int num_groups = 0;                  // an upper bound; unused groups are empty
  int rows_of_group = 0;
};
// Returns the maximum number of groups for that many pairs and experts.
int GroupsMost(int64_t num_pairs, int num_experts, int rows_of_group);

struct RouteTask {
  ExpertRule rule;
  int num_rows = 0;
  const float* logits = nullptr;         // [num_rows, num_experts]
  const float* shared_logits = nullptr;  // [num_rows] or null
  float* shared_factors = nullptr;       // [num_rows]: sigmoids of shared_logits
  float* shares = nullptr;               // [pairs]
  int* chosen = nullptr;                 // [pairs]: experts, ascending per row
  int* order = nullptr;                  // [pairs]: pairs sorted by expert, ascending in each
  int* places = nullptr;                 // [pairs]: the index of each pair in `order`
};
// Computes what ChooseExperts does. If `alone` is not null, it receives groups of one pair each, in
// the order of the pairs; if null, LaunchGroupPairs computes order, places and groups.
void LaunchRoute(const RouteTask& task, matmul::RowGroup* alone, device::CommandStream& stream);
// Makes the groups for the two products of an expert.
void LaunchGroupPairs(const RouteTask& task, const GroupList& input, const GroupList& output,
                      device::CommandStream& stream);

// y[r, :] += sum_i factors[r * num_terms + i] * scale * terms[places[r * num_terms + i], :], i
// ascending. Null places mean the identity; null factors mean 1.
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
void LaunchAddTerms(const AddTermsTask& task, int num_multiprocessors,
                    device::CommandStream& stream);

}  // namespace kvgate::kernels::cuda::experts
