package org.terrace.kafka;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.terrace.Database;
import org.terrace.Hash;
import org.terrace.Terrace;
import org.terrace.TerraceException;

/**
 * The one engine of all stores of an application in this process. It is opened for the first store, and closed some time
 * after the last one, as stores come and go while tasks move.
 */
final class Engine {
    private static final Logger LOG = LoggerFactory.getLogger(Engine.class);

    /** Where records of all stores lie: see {@link Committed}. */
    private static final String STORES = "stores";
    /** The file whose identity tells whether the folder is still the one that was opened. */
    private static final String DATA = "data";
    private static final long SWEEP_MINUTES = 10;

    private static final Map<Path, Engine> OPEN = new HashMap<>();
    private static ScheduledExecutorService timer;
    /** Whether the process ends: nobody comes back, and an engine that is closed has nothing to replay when it is opened. */
    private static boolean ending;

    /** The folder of the application. */
    private final Path application;
    private final Path folder;
    private final long linger;
    private final long memory;
    private final Object identity;
    final Database db;
    final Hash stores;
    private final Set<String> names = new HashSet<>();
    private int users;
    private ScheduledFuture<?> closing;
    private final ScheduledFuture<?> sweeping;

    private Engine(Path application, Path folder, Settings settings) {
        this.application = application;
        this.folder = folder;
        this.linger = settings.linger();
        this.memory = settings.memory();
        Database opened = null;
        try {
            Files.createDirectories(folder);
            opened = Terrace.open(folder, settings.options());
            this.db = opened;
            this.stores = opened.hash(STORES);
        } catch (IOException e) {
            throw new ProcessorStateException("making " + folder + " for Terrace", e);
        } catch (TerraceException e) {
            if (opened != null) {
                closed(opened, folder);
            }
            throw new ProcessorStateException("opening the database of Terrace in " + folder
                + " (state.dir, or " + Settings.MEMORY + " for its memory): " + e.getMessage(), e);
        }
        this.identity = identity(folder);
        this.sweeping = timer().scheduleWithFixedDelay(this::sweep, SWEEP_MINUTES, SWEEP_MINUTES, TimeUnit.MINUTES);
    }

    private static synchronized ScheduledExecutorService timer() {
        if (timer == null) {
            ScheduledThreadPoolExecutor made = new ScheduledThreadPoolExecutor(1, run -> {
                Thread thread = new Thread(run, "terrace-kafka-streams");
                thread.setDaemon(true);
                return thread;
            });
            made.setRemoveOnCancelPolicy(true);
            timer = made;
            try {
                Runtime.getRuntime().addShutdownHook(new Thread(Engine::end, "terrace-kafka-streams-end"));
            } catch (IllegalStateException e) {
                ending = true;
            }
        }
        return timer;
    }

    private static Object identity(Path folder) {
        try {
            return Files.readAttributes(folder.resolve(DATA), BasicFileAttributes.class).fileKey();
        } catch (IOException e) {
            return null;
        }
    }

    /** Whether its files still have their names: who deletes the folder of an application leaves them without. */
    private boolean isThere() {
        return identity != null && Objects.equals(identity, identity(folder));
    }

    /** The folder of the application that a store belongs to. */
    static Path application(Path stateDir) {
        boolean ofTask = isTask(String.valueOf(stateDir.getFileName()));
        return ofTask && stateDir.getParent() != null ? stateDir.getParent() : stateDir;
    }

    /** Whether Streams names folders of tasks so. */
    private static boolean isTask(String name) {
        return name.matches("\\d+_\\d+(__.*)?") || name.equals("global");
    }

    /** The engine for a store, which {@link #release releases} it. */
    static synchronized Engine acquire(StateStoreContext context, String name) {
        Settings settings = new Settings(context.appConfigs());
        Path application = application(context.stateDir().toPath().toAbsolutePath().normalize());
        Path folder = application.resolve("terrace");
        Engine engine = OPEN.get(folder);
        if (engine != null && !engine.isThere()) {
            OPEN.remove(folder);
            if (engine.users == 0) {
                engine.close();
            } else {
                LOG.warn("{} was deleted while {} stores had it open; they go on without it", folder, engine.users);
            }
            engine = null;
        }
        if (engine == null) {
            engine = new Engine(application, folder, settings);
            OPEN.put(folder, engine);
        } else if (engine.memory != settings.memory()) {
            LOG.warn("the stores in {} share one engine with {} bytes of memory; {} of another configuration is ignored", folder,
                engine.memory, Settings.MEMORY);
        }
        if (engine.closing != null) {
            engine.closing.cancel(false);
            engine.closing = null;
        }
        engine.users++;
        engine.names.add(name);
        return engine;
    }

    void release(String name) {
        synchronized (Engine.class) {
            names.remove(name);
            users--;
            if (users > 0) {
                return;
            }
            if (OPEN.get(folder) != this || linger == 0 || ending) {
                OPEN.remove(folder, this);
                close();
            } else {
                closing = timer().schedule(this::closeIfIdle, linger, TimeUnit.MILLISECONDS);
            }
        }
    }

    private void closeIfIdle() {
        synchronized (Engine.class) {
            if (users == 0) {
                OPEN.remove(folder, this);
                close();
            }
        }
    }

    /** Those that linger are closed, and the others with their last store, which the application's own hook closes. */
    private static synchronized void end() {
        ending = true;
        closeIdle();
    }

    /** Closes those that linger now: for tests, and who wants the files. */
    static synchronized void closeIdle() {
        for (Engine engine : Set.copyOf(OPEN.values())) {
            if (engine.closing != null) {
                engine.closing.cancel(false);
            }
            engine.closeIfIdle();
        }
    }

    private void close() {
        sweeping.cancel(false);
        boolean there = isThere();
        if (there) {
            trySweepNames();
        }
        closed(db, there ? folder : null);
    }

    /** What was committed is in the log; and of a folder that is gone, null, nobody wants anything. */
    private static void closed(Database db, Path folder) {
        try {
            db.close();
        } catch (RuntimeException e) {
            if (folder != null) {
                LOG.warn("closing the database of Terrace in {}", folder, e);
            }
        }
    }

    // ---- who has gone

    /** The folder of a store, by which Streams tells us that it has wiped it. */
    static Path folderOf(Path taskFolder, String store) {
        return taskFolder.resolve("terrace-" + store);
    }

    private void sweep() {
        synchronized (Engine.class) {
            if (OPEN.get(folder) == this && isThere()) {
                trySweepNames();
            }
        }
    }

    /** Whoever closes has to go on, and the timer ends what throws. */
    private void trySweepNames() {
        try {
            sweepNames();
        } catch (RuntimeException e) {
            LOG.warn("looking for stores that are gone in {}", folder, e);
        }
    }

    /** Drops what belongs to stores whose folder was deleted, unless they are open. */
    private void sweepNames() {
        for (String structure : db.structures().keySet()) {
            int task = structure.indexOf('/');
            if (task < 0) {
                continue;
            }
            int segment = structure.indexOf('@', task);
            String name = segment < 0 ? structure : structure.substring(0, segment);
            String taskName = name.substring(0, task);
            // As `application` has it: a folder that is none of a task is its own application.
            Path taskFolder = isTask(taskName) ? application.resolve(taskName) : application;
            Path ref = folderOf(taskFolder, name.substring(task + 1)).resolve(Ref.FILE);
            if (!names.contains(name) && !Files.exists(ref)) {
                db.drop(structure);
                stores.delete(name.getBytes(java.nio.charset.StandardCharsets.UTF_8));
            }
        }
    }
}
