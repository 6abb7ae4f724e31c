// Codes that work once, at any control plane: only their hashes are stored. Deleting the row is the use, so of two
// concurrent uses one succeeds.
import { ONE_USE_CODES } from '../../limits/sharing.ts'
import type { Db } from '../engine/db.ts'
import type { OneUseCodesTable } from '../schema.ts'

type Kind = OneUseCodesTable['kind']

/** Keeps so many of the kind and of the holder; the oldest go first, and expired ones with them. */
export async function insertCode(
  db: Db,
  code: OneUseCodesTable,
  most: { perHolder: number; now: number },
): Promise<void> {
  const { kind, holder } = code
  await db.insertInto('oneUseCodes').values(code).execute()
  await deleteExpiredCodes(db, most.now)
  await db
    .deleteFrom('oneUseCodes')
    .where('hash', 'in', (e) =>
      e
        .selectFrom('oneUseCodes')
        .select('hash')
        .where('kind', '=', kind)
        .where('holder', '=', holder)
        .orderBy('expiresAt', 'desc')
        .limit(MANY)
        .offset(most.perHolder),
    )
    .execute()
  await db
    .deleteFrom('oneUseCodes')
    .where('hash', 'in', (e) =>
      e
        .selectFrom('oneUseCodes')
        .select('hash')
        .where('kind', '=', kind)
        .orderBy('expiresAt', 'desc')
        .limit(MANY)
        .offset(ONE_USE_CODES.kept),
    )
    .execute()
}

const MANY = 1_000_000 // SQLite has no offset without a limit

/** Undefined if it is unknown, used, expired or another holder's; the last case leaves it to its owner. */
export async function takeCode(
  db: Db,
  asked: { kind: Kind; holder: string; hash: string; now: number },
): Promise<string | undefined> {
  const row = await db
    .deleteFrom('oneUseCodes')
    .where('hash', '=', asked.hash)
    .where('kind', '=', asked.kind)
    .where('holder', '=', asked.holder)
    .returning(['body', 'expiresAt'])
    .executeTakeFirst()
  return row && row.expiresAt > asked.now ? row.body : undefined
}

export async function deleteCodes(db: Db, kind: Kind): Promise<void> {
  await db.deleteFrom('oneUseCodes').where('kind', '=', kind).execute()
}

export async function deleteExpiredCodes(db: Db, now: number): Promise<void> {
  await db.deleteFrom('oneUseCodes').where('expiresAt', '<=', now).execute()
}
