// A control plane's work stopped where it would begin to write, so that a test can do something else in that very moment.
import type { Context } from '../control-plane/src/context.ts'

export interface Held {
  /** Somebody stands before a transaction. */
  reached: Promise<void>
  /** Lets everybody go on. */
  go: () => void
}

/** The database with its next transaction held, if `isOurs` says so of it. */
export function holdChanges(
  db: Context['db'],
  isOurs: () => boolean = () => true,
): Held & { db: Context['db'] } {
  const reached = Promise.withResolvers<void>()
  const going = Promise.withResolvers<void>()
  const transaction = () => {
    const real = db.transaction()
    if (!isOurs()) return real
    const execute: typeof real.execute = async (work) => {
      reached.resolve()
      await going.promise
      return real.execute(work)
    }
    return { execute }
  }
  const held = new Proxy(db, {
    get(target, name) {
      if (name === 'transaction') return transaction
      const value = Reflect.get(target, name) as unknown
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
  return { db: held, reached: reached.promise, go: going.resolve }
}
