// The header from C++: vectors to bytes and back. Ends with status 0 if all is well.

#include "msgpack_array.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

int main()
{
    const std::vector<double> values(70000, -0.25);
    std::vector<std::uint8_t> bytes(msgpack_array_max_encoded_len(MSGPACK_ARRAY_TYPE_F64, values.size()));
    std::size_t written = 0;
    const bool encoded = msgpack_array_encode_f64(values.data(), values.size(), bytes.data(), bytes.size(), &written) ==
                         MSGPACK_ARRAY_STATUS_OK;
    bytes.resize(written);

    // How many there are first, then the elements.
    msgpack_array_decoded decoded;
    const bool asked = msgpack_array_decode_f64(bytes.data(), bytes.size(), nullptr, 0, &decoded) ==
                       MSGPACK_ARRAY_STATUS_TOO_SMALL;
    std::vector<double> back(decoded.count);
    const bool read = msgpack_array_decode_f64(bytes.data(), bytes.size(), back.data(), back.size(), &decoded) ==
                      MSGPACK_ARRAY_STATUS_OK;
    if (!encoded || !asked || !read || back != values || decoded.bytes != written) {
        std::fprintf(stderr, "encoded %d, asked %d, read %d, %zu of %zu bytes\n", encoded, asked, read, decoded.bytes,
                     written);
        return 1;
    }
    return 0;
}
