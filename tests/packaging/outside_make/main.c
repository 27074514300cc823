/* A program of somebody else, in C: asks the server at argv[1] for its health. */
#include <kvgate.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char** argv) {
  kvgate_connect_options options;
  kvgate_client* client = NULL;
  kvgate_response* response = NULL;
  kvgate_error* error = NULL;
  kvgate_status status;
  if (argc != 2 || kvgate_abi_version() != KVGATE_ABI_VERSION) return 2;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.url = argv[1];
  options.no_retries = 1;
  status = kvgate_connect(&options, &client, &error);
  if (status == KVGATE_OK) {
    status = kvgate_call(client, "GET", "/health", NULL, 0, NULL, &response, &error);
  }
  if (status == KVGATE_OK) {
    printf("%s %d\n", kvgate_version(), (int)kvgate_response_http_status(response));
  } else {
    printf("%s %s\n", kvgate_version(), kvgate_status_name(status));
  }
  kvgate_response_free(response);
  kvgate_error_free(error);
  kvgate_close(client);
  return 0;
}
