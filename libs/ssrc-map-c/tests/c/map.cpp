// The header from C++: a map owned by a smart pointer, and a lambda as visitor. Ends with status 0 if all is well.

#include "ssrc_map.h"

#include <cstdio>
#include <memory>

int main()
{
    std::unique_ptr<ssrc_map, decltype(&ssrc_map_destroy)> map(ssrc_map_create(8), ssrc_map_destroy);
    int audio = 1, video = 2, sum = 0;

    bool inserted = ssrc_map_insert(map.get(), 0xfffffffeu, &audio, nullptr) == SSRC_MAP_STATUS_OK &&
                    ssrc_map_insert(map.get(), 0u, &video, nullptr) == SSRC_MAP_STATUS_OK;
    ssrc_map_status visited = ssrc_map_for_each(
        map.get(),
        [](uint32_t, void *value, void *context) {
            *static_cast<int *>(context) += *static_cast<int *>(value);
            return true;
        },
        &sum);
    bool found = ssrc_map_get(map.get(), 0u) == &video && ssrc_map_get(map.get(), 1u) == nullptr;
    if (!inserted || !found || visited != SSRC_MAP_STATUS_OK || sum != 3) {
        std::fprintf(stderr, "inserted %d, found %d, visited %d, sum %d\n", inserted, found, visited, sum);
        return 1;
    }
    return 0;
}
