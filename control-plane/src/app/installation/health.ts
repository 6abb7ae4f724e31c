// Whether the store can serve: the database answers, and the disk has space.
import type { Context } from '../../context.ts'
import { isSetupDone } from './setup.ts'

export interface StoreHealth {
  status: 'ok' | 'storage_full' | 'unavailable'
  setupRequired: boolean
}

export async function checkStore(ctx: Context): Promise<StoreHealth> {
  try {
    const setupRequired = !(await isSetupDone(ctx.db))
    return { status: (await ctx.diskSpace.isFull()) ? 'storage_full' : 'ok', setupRequired }
  } catch (error) {
    ctx.log.error({ err: error }, 'the store does not answer')
    return { status: 'unavailable', setupRequired: false }
  }
}
