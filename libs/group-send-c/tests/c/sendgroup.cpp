// The header from C++: a sender owned by a smart pointer, recipients in a vector, IPv6. Ends with status 0 if all is well.

#include "sendgroup.h"

#include <cstdio>
#include <cstring>
#include <memory>
#include <netinet/in.h>
#include <poll.h>
#include <string>
#include <unistd.h>
#include <vector>

int main()
{
    int listener = socket(AF_INET6, SOCK_DGRAM, 0), fd = socket(AF_INET6, SOCK_DGRAM, 0);
    sockaddr_in6 address = sockaddr_in6();
    socklen_t len = sizeof(address);
    address.sin6_family = AF_INET6;
    address.sin6_addr = in6addr_loopback;
    sockaddr *any = reinterpret_cast<sockaddr *>(&address);
    if (listener < 0 || fd < 0 || bind(listener, any, len) != 0 || getsockname(listener, any, &len) != 0) {
        std::perror("IPv6 on the loopback device");
        return 1;
    }

    sendgroup_sender *opened = nullptr;
    char why[200];
    if (sendgroup_open(fd, nullptr, &opened, why, sizeof(why)) != 0) {
        std::fprintf(stderr, "%s\n", why);
        return 1;
    }
    std::unique_ptr<sendgroup_sender, decltype(&sendgroup_close)> sender(opened, sendgroup_close);

    std::string payload = "shared", header = "private ";
    iovec packet = {&payload[0], payload.size()}, before = {&header[0], header.size()};
    sendgroup_recipient recipient = sendgroup_recipient();
    recipient.destination = any;
    recipient.destination_len = len;
    recipient.prepend = &before;
    recipient.prepend_len = 1;
    std::vector<sendgroup_recipient> recipients(5, recipient);
    ssize_t served = sendgroup_send(sender.get(), &packet, 1, recipients.data(), recipients.size());
    for (int i = 0; i < 5; i++) {
        char buffer[100];
        pollfd readable = {listener, POLLIN, 0};
        if (poll(&readable, 1, 10000) != 1) {
            std::fprintf(stderr, "served %zd, nothing received\n", served);
            return 1;
        }
        ssize_t received = recv(listener, buffer, sizeof(buffer), 0);
        if (received < 0 || std::string(buffer, static_cast<size_t>(received)) != "private shared") {
            std::fprintf(stderr, "served %zd, received %zd bytes\n", served, received);
            return 1;
        }
    }
    close(listener);
    close(fd);
    return served == 5 ? 0 : 1;
}
