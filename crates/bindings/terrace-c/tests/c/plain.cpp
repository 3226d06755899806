// The header and the classes as C++11: what is said in the guide.
#include "terrace.hpp"

#include <cstdlib>
#include <iostream>

#define CHECK(what) \
    if (!(what)) { std::cerr << __LINE__ << ": " #what "\n"; std::exit(1); }

int main(int count, char **arguments) {
    CHECK(count == 2);
    const std::string path = std::string(arguments[1]) + "/db";
    terrace_options options = TERRACE_OPTIONS_INIT;
    options.memory_bytes = 16 << 20;
    terrace::Map closed;
    {
        terrace::Database db(path, options);
        terrace::Map users = db.tree("users");
        users.put("alice", "Berlin");
        std::string value;
        CHECK(users.get("alice", value) && value == "Berlin");
        CHECK(!users.get("bob", value));
        users.put("bob", std::string("a\0b", 3));
        CHECK(users.get("bob", value) && value.size() == 3);
        users.erase("bob");

        terrace::Batch batch = db.batch();
        batch.put(users, "carol", "Rome").put(users, "dave", "Oslo").erase(users, "alice");
        db.write(batch, TERRACE_SYNC);
        std::string names;
        for (terrace::Cursor c = users.range(); c.next();) names += c.key() + "=" + c.value() + ";";
        CHECK(names == "carol=Rome;dave=Oslo;");

        int runs = 0;
        db.transaction([&](terrace::Transaction &t) {
            std::string city;
            CHECK(t.get(users, "carol", city));
            if (++runs == 1) users.put("carol", "Bonn");
            t.put(users, "copy", city);
        });
        CHECK(runs == 2 && users.get("copy", value) && value == "Bonn");
        // What is thrown inside comes out, and nothing is changed.
        bool thrown = false;
        try {
            db.transaction([&](terrace::Transaction &t) {
                t.erase(users, "copy");
                throw std::runtime_error("mine");
            });
        } catch (const std::runtime_error &error) {
            thrown = std::string(error.what()) == "mine";
        }
        CHECK(thrown && users.get("copy", value));
        try {
            db.tree("users").range("a", "b").next();
            db.map("none");
            CHECK(false);
        } catch (const terrace::Error &error) {
            CHECK(error.status() == TERRACE_NO_SUCH_STRUCTURE);
        }
        CHECK(db.stats().find("\"memory\"") != std::string::npos);
        closed = std::move(users);
    }
    try {
        closed.put("k", "v");
        CHECK(false);
    } catch (const terrace::Error &error) {
        CHECK(error.status() == TERRACE_CLOSED);
    }
    return 0;
}
