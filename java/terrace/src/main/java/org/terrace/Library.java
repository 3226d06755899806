package org.terrace;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.AtomicMoveNotSupportedException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.DigestOutputStream;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Locale;

/** Finds the native library, in the jar or where it is said to be, and loads it once. */
final class Library {
    /** The border that this jar speaks; the library says which one it has. */
    static final int VERSION = 3;

    /** Where the library is, if it is not to be taken from the jar: a file or its folder. */
    static final String PATH = "terrace.library.path";
    /** Where the library of the jar is extracted to; the user's own folder if nothing is said. */
    static final String FOLDER = "terrace.library.folder";

    private static final String FILE = "libterrace_jni.so";
    private static boolean loaded;

    private Library() {}

    static synchronized void load() {
        if (loaded) {
            return;
        }
        String said = System.getProperty(PATH);
        Path file = said == null ? extracted() : named(Path.of(said));
        try {
            System.load(file.toAbsolutePath().toString());
        } catch (UnsatisfiedLinkError e) {
            throw new UnsatisfiedLinkError(explained(file, e));
        } catch (RuntimeException e) {
            // JDK 24 and later call it IllegalCallerException when native access is denied.
            throw new IllegalStateException("this JVM was told to deny native access: start it with"
                + " --enable-native-access=org.terrace (ALL-UNNAMED, if the jar is on the class path)", e);
        }
        int version = Native.version();
        if (version != VERSION) {
            throw new UnsatisfiedLinkError(file + " is a library of version " + version + ", and this jar needs "
                + VERSION + "; take both of one build");
        }
        loaded = true;
    }

    private static String explained(Path file, UnsatisfiedLinkError e) {
        String text = String.valueOf(e.getMessage());
        if (text.contains("already loaded in another classloader")) {
            return "Terrace is loaded by another class loader of this process already: put its jar where both see"
                + " it, in the common parent (with application servers their own lib folder)";
        }
        if (text.contains("failed to map segment") || text.contains("Operation not permitted")) {
            return file + " lies in a file system from which nothing may be run (noexec): name another folder with -D"
                + FOLDER + "=, or the library itself with -D" + PATH + "= (" + text + ")";
        }
        if (text.contains("GLIBC_")) {
            return "the C library here is older than the one that the native part needs: build it here with java/run"
                + " jar (" + text + ")";
        }
        // Both may be there: then the loader of glibc has loaded this program.
        boolean glibc = Files.exists(Path.of("/lib64/ld-linux-x86-64.so.2"))
                || Files.exists(Path.of("/lib/ld-linux-aarch64.so.1"));
        if (text.contains("musl") || !glibc && Files.exists(Path.of("/lib/ld-musl-" + machine() + ".so.1"))) {
            return "this system has musl in place of glibc, for which the jar has no library: build it here with"
                + " java/run jar, or take an image with glibc (" + text + ")";
        }
        return "the native library could not be loaded: " + text;
    }

    private static Path named(Path said) {
        return Files.isDirectory(said) ? said.resolve(FILE) : said;
    }

    static String machine() {
        String arch = System.getProperty("os.arch", "").toLowerCase(Locale.ROOT);
        return arch.equals("amd64") ? "x86_64" : arch;
    }

    private static Path extracted() {
        String system = System.getProperty("os.name", "").toLowerCase(Locale.ROOT);
        String resource = "/org/terrace/natives/" + system + "-" + machine() + "/" + FILE;
        String hash;
        try {
            hash = hash(packed(resource));
        } catch (IOException e) {
            throw new UnsatisfiedLinkError("reading the native library out of the jar: " + e);
        }
        try {
            Path folder = folder();
            Path file = folder.resolve(hash + "-" + FILE);
            // One that somebody has changed is written anew: its name is what is in it.
            if (!Files.isRegularFile(file) || !hash(Files.newInputStream(file)).equals(hash)) {
                Path fresh = Files.createTempFile(folder, "new", ".so");
                try (InputStream in = packed(resource); OutputStream out = Files.newOutputStream(fresh)) {
                    in.transferTo(out);
                }
                try {
                    Files.move(fresh, file, StandardCopyOption.ATOMIC_MOVE);
                } catch (AtomicMoveNotSupportedException e) {
                    Files.move(fresh, file, StandardCopyOption.REPLACE_EXISTING);
                }
            }
            return file;
        } catch (IOException e) {
            throw new UnsatisfiedLinkError("extracting the native library: " + e + "; name another folder with -D" + FOLDER
                + "=, or the library itself with -D" + PATH + "=");
        }
    }

    private static InputStream packed(String resource) {
        InputStream in = Library.class.getResourceAsStream(resource);
        if (in == null) {
            throw new UnsatisfiedLinkError("this jar has no native library for "
                + System.getProperty("os.name", "").toLowerCase(Locale.ROOT) + " on " + machine()
                + ": build it here with java/run jar, or name one with -D" + PATH + "=");
        }
        return in;
    }

    /** A folder into which nobody else writes. */
    private static Path folder() throws IOException {
        String said = System.getProperty(FOLDER);
        if (said != null) {
            return Files.createDirectories(Path.of(said));
        }
        Path folder = Path.of(System.getProperty("java.io.tmpdir"), "terrace-" + System.getProperty("user.name"));
        var owned = PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------"));
        try {
            Files.createDirectory(folder, owned);
        } catch (FileAlreadyExistsException there) {
            // Somebody else's folder under our name would let them choose what we run.
            boolean ours = Files.isDirectory(folder, java.nio.file.LinkOption.NOFOLLOW_LINKS)
                && Files.getOwner(folder).equals(Files.getOwner(Path.of("/proc/self/")))
                && Files.getPosixFilePermissions(folder).equals(PosixFilePermissions.fromString("rwx------"));
            if (!ours) {
                return Files.createTempDirectory("terrace", owned);
            }
        }
        return folder;
    }

    /** Of all that comes, which a small heap may not hold. */
    private static String hash(InputStream content) throws IOException {
        try (InputStream in = content) {
            MessageDigest sha = MessageDigest.getInstance("SHA-256");
            in.transferTo(new DigestOutputStream(OutputStream.nullOutputStream(), sha));
            byte[] digest = sha.digest();
            StringBuilder hex = new StringBuilder();
            for (int i = 0; i < 16; i++) {
                hex.append(String.format("%02x", digest[i]));
            }
            return hex.toString();
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every JVM has SHA-256", e);
        }
    }
}
