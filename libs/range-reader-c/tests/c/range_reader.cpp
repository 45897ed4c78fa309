// The header from C++: a file that closes itself. Takes the URL of the tests' server. Ends with status 0 if all is well.

#include "range_reader.h"

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

int main(int count, char **arguments)
{
    if (count < 2)
        return 2;
    range_reader_options options = {};
    options.any_address = true;
    options.headers = "user-agent: test";
    range_reader *opened = nullptr;
    char why[200];
    const std::string url = std::string(arguments[1]) + "/film";
    if (range_reader_open(url.c_str(), &options, &opened, why, sizeof why) != 0) {
        std::fprintf(stderr, "%s\n", why);
        return 1;
    }
    const std::unique_ptr<range_reader, decltype(&range_reader_close)> reader(opened, range_reader_close);
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(range_reader_size(reader.get())));
    std::size_t done = 0;
    while (done < bytes.size()) {
        const std::int64_t read = range_reader_read(reader.get(), bytes.data() + done, bytes.size() - done);
        if (read <= 0)
            return 1;
        done += static_cast<std::size_t>(read);
    }
    for (std::size_t at = 0; at < bytes.size(); at++) {
        if (bytes[at] != static_cast<std::uint8_t>(at * 31 + at / 256)) {
            std::fprintf(stderr, "byte %zu\n", at);
            return 1;
        }
    }
    return 0;
}
