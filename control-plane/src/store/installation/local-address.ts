// The address from which this machine reaches PostgreSQL: other processes on that database can most likely reach it
// there. Not by the machine's interfaces: the service's unit forbids the sockets that list them.
import type { Socket } from 'node:net'
import pg from 'pg'
import { DATABASE } from '../../limits/installation.ts'

/** A loopback address if the database is on this machine. */
export async function findLocalAddress(databaseUrl: string): Promise<string> {
  const client = new pg.Client({
    connectionString: databaseUrl,
    connectionTimeoutMillis: DATABASE.connectMs,
  })
  await client.connect()
  try {
    const { stream } = (client as unknown as { connection: { stream: Socket } }).connection
    // none on a Unix socket
    return (stream.localAddress ?? '127.0.0.1').replace(/^::ffff:/, '')
  } finally {
    await client.end().catch(() => undefined)
  }
}
