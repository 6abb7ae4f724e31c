// Users ask for a mail when an environment is degraded. Reading an environment is enough to watch it. A watch changes
// only the mails of its own user, so it needs no audit entry.
import { AppError, invalidFields } from '@berth/shared'
import type { EnvironmentWatch } from '@berth/shared/api'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import { deleteWatcher, insertWatcher } from '../../store/environments/watchers.ts'
import { loadEnvironment } from '../core/access.ts'
import { change } from '../core/transaction.ts'

export async function watchEnvironment(
  ctx: Context,
  caller: Caller,
  id: number,
  { watching }: EnvironmentWatch,
): Promise<EnvironmentWatch> {
  const { identifier, removingAt } = await loadEnvironment(ctx.db, caller, id, 'read')
  if (watching && removingAt !== null) {
    throw new AppError('environment_removing', `${identifier} is being removed.`)
  }
  if (watching && ctx.config.mail.kind === 'none') {
    const message = 'This installation sends no mail. Ask its administrator to set BERTH_SMTP_URL.'
    throw invalidFields([{ field: 'watching', code: 'no_mail', message }])
  }
  const row = { environmentId: id, userId: caller.userId }
  await change(ctx, (c) =>
    watching ? insertWatcher(c.db, { ...row, createdAt: c.now }) : deleteWatcher(c.db, row),
  )
  return { watching }
}
