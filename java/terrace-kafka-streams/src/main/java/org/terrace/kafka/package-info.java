/**
 * State stores of Kafka Streams on Terrace. One engine and one number of memory serve all stores of a process; the offset of
 * the changelog is written in the same atomic batch as the data, so after any crash a store is exactly at its last commit.
 * Begin with {@link org.terrace.kafka.TerraceDslStoreSuppliers}, or {@link org.terrace.kafka.TerraceStores} for one store.
 */
package org.terrace.kafka;
