/**
 * Terrace: an embedded, durable key-value engine for data larger than memory whose accesses are skewed. Begin with
 * {@link org.terrace.Terrace#open}.
 *
 * <p>Keys and values are arrays of bytes; an array that was given is copied before the call returns, and one that is
 * answered is the caller's own. Keys are ordered as unsigned bytes. All handles may be used from any number of threads
 * at once, but for {@link org.terrace.Cursor}, {@link org.terrace.WriteBatch}, {@link org.terrace.Loader} and {@link
 * org.terrace.Transaction}, which belong to one thread at a time (using them from several is an error or waits, never a
 * crash). Every call may wait for a disk. A virtual thread holds its carrier during a call.
 *
 * <p>Whatever fails is a {@link org.terrace.TerraceException}, whose {@code kind()} says what one can do.
 */
package org.terrace;
