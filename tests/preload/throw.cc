/* SPDX-License-Identifier: Apache-2.0 */
/* Exceptions that pass through a thunk, with what must be destroyed on the way. */
#include <cstdio>
#include <stdexcept>
#include <string>

#ifdef THROWER
extern "C" int
thrower(int n, double x)
{
    std::string text = "value " + std::to_string(n + x);
    if (n % 2)
        throw std::runtime_error(text);
    return n;
}
#else
extern "C" int thrower(int n, double x);

struct witness {
    int &count;
    ~witness()
    {
        count++;
    }
};

int
main()
{
    int destroyed = 0;
    for (int i = 0; i < 4; i++) {
        try {
            witness w{destroyed};
            std::printf("%d\n", thrower(i, 0.5));
        } catch (const std::exception &error) {
            std::printf("%s\n", error.what());
        }
    }
    std::printf("%d\n", destroyed);
    return 0;
}
#endif
