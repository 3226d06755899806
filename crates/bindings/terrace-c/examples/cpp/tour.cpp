// The same with the classes of terrace.hpp: what was opened gives itself back, failures are exceptions.
#include <iostream>
#include <terrace.hpp>

int main(int count, char **arguments) try {
    if (count != 2) return 2;
    terrace_options options = TERRACE_OPTIONS_INIT;
    options.memory_bytes = 64 << 20;
    terrace::Database db(arguments[1], options);
    terrace::Map users = db.tree("users");
    users.put("alice", "Berlin");
    std::string city;
    if (users.get("alice", city)) std::cout << "alice lives in " << city << "\n";

    terrace::Batch batch = db.batch();
    batch.put(users, "bob", "Rome").put(users, "carol", "Oslo");
    db.write(batch, TERRACE_SYNC);
    db.transaction([&](terrace::Transaction &t) {
        std::string alice, bob;
        if (t.get(users, "alice", alice) && t.get(users, "bob", bob)) {
            t.put(users, "alice", bob);
            t.put(users, "bob", alice);
        }
    });
    for (terrace::Cursor c = users.range(); c.next();) std::cout << c.key() << ": " << c.value() << "\n";
    return 0;
} catch (const terrace::Error &error) {
    std::cerr << error.what() << "\n";
    return 1;
}
