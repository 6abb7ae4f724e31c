// Work outside any transaction that only one control plane may do at a time, such as requests that first look and then
// add. The lease is a row that is renewed while the work runs; after a kill it ends by itself.
import { AppError } from '@berth/shared'
import type { Context } from '../../context.ts'
import { LEASES } from '../../limits/sharing.ts'
import { claimDuties, releaseDuty } from '../../store/installation/replicas.ts'

type LeaseContext = Pick<Context, 'db' | 'log' | 'replicas'>

/** Waits for other control planes; the caller keeps order within this one. */
export async function withLease<T>(
  ctx: LeaseContext,
  name: string,
  work: () => Promise<T>,
): Promise<T> {
  if (ctx.replicas.isAlone) return work()
  const { db, log } = ctx
  const { id } = ctx.replicas
  const claim = async (): Promise<boolean> =>
    (await claimDuties(db, id, [name], LEASES.leaseMs)).length > 0
  const deadline = performance.now() + LEASES.waitMs
  while (!(await claim())) {
    if (performance.now() > deadline) {
      throw new AppError('unavailable', 'The same is under way already. Try again in a moment.')
    }
    await new Promise((resolve) => setTimeout(resolve, LEASES.againMs))
  }
  const timer = setInterval(() => {
    claim().catch((error: unknown) => log.warn({ err: error, name }, 'a lease was not renewed'))
  }, LEASES.renewMs)
  try {
    return await work()
  } finally {
    clearInterval(timer)
    await releaseDuty(db, id, name).catch((error: unknown) =>
      log.warn({ err: error, name }, 'a lease ends by itself'),
    )
  }
}
