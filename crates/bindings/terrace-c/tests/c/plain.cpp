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
        terrace::Changes changes = db.changes();
        terrace_map_options expiring = TERRACE_MAP_OPTIONS_INIT;
        expiring.expiring = 1;
        terrace::Map sessions = db.hash("sessions", &expiring);
        CHECK(changes.next());
        const uint64_t late = 7258118400000u;
        sessions.put_until("s1", "alice", late);
        CHECK(sessions.expires("s1") == late && sessions.expire_in("s1", TERRACE_FOREVER));
        CHECK(sessions.expires("s1") == TERRACE_FOREVER && !sessions.expire_in("none", 1));
        sessions.put_for("s2", "bob", 100000000);
        CHECK(sessions.expires("s2") < late && sessions.expires("none") == 0);
        terrace::Changes moved = std::move(changes);
        terrace_change change;
        CHECK(moved.next() && moved.change(change) && change.what == TERRACE_CHANGE_PUT && change.time_ms == late);
        CHECK(!moved.change(change));
        const std::string place = moved.place();
        CHECK(place.size() == 64 && moved.sequence() != 0);
        while (moved.next(0)) CHECK(moved.change(change));
        terrace_changes_options from = TERRACE_CHANGES_OPTIONS_INIT;
        from.from = place.c_str();
        terrace::Changes again = db.changes(&from);
        CHECK(again.next() && again.change(change) && change.time_ms == TERRACE_FOREVER);
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
