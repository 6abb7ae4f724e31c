// Opens the API of a connection with its token. The token is bound to the connection and the origin of its API, so a
// changed row cannot send it elsewhere. It is in no answer, log or audit row, and never reaches a server.
import { Sensitive } from '@berth/shared'
import type { Context } from '../../../context.ts'
import type { ForgeClient } from '../../../forges/clients/forge.ts'
import type { ForgePlace } from '../../../forges/forges.ts'
import { SecretStoreError } from '../../../keys/secret-store.ts'
import type { ForgeConnection } from '../../../store/forges/connections.ts'

type Bound = Pick<ForgeConnection, 'id' | 'organizationId' | 'apiUrl'>

export const connectionPlace = ({ id, organizationId, apiUrl }: Bound) => ({
  table: 'forge_connections',
  column: 'token_sealed',
  organizationId,
  rowId: `${id}@${URL.canParse(apiUrl) ? new URL(apiUrl).origin : ''}`,
})

export const sealToken = (ctx: Context, connection: Bound, token: string): string =>
  ctx.secretStore.seal('host-token', connectionPlace(connection), Buffer.from(token))

/** Undefined if the token cannot be read any more. */
export async function placeOf(
  ctx: Context,
  connection: ForgeConnection,
): Promise<ForgePlace | undefined> {
  try {
    const place = connectionPlace(connection)
    const plain = await ctx.secretStore.open('host-token', place, connection.tokenSealed)
    const token = new Sensitive(Buffer.from(plain).toString('utf8'))
    return { provider: connection.provider, base: connection.apiUrl, token }
  } catch (error) {
    if (error instanceof SecretStoreError) return undefined
    throw error
  }
}

export async function openConnected(
  ctx: Context,
  connection: ForgeConnection,
  repoUrl: string,
): Promise<ForgeClient | undefined> {
  const place = await placeOf(ctx, connection)
  return place && ctx.outbound.openRepository(place, repoUrl)
}
