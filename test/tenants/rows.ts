// One row a route: how to ask for it in an organization, and what somebody who may do it can get. Everything else, who
// is refused with what, follows from the route's own `needs`. A route without a row fails the matrix.
//
// Rows of another part go to a file of their own, spread into ROWS below.

import type { Role } from '@berth/shared/rest'
import { ENVIRONMENT_ROWS } from './rows-environments.ts'
import { PEOPLE_ROWS } from './rows-people.ts'
import { PLATFORM_ROWS } from './rows-platform.ts'
import { PROJECT_ROWS } from './rows-projects.ts'
import { SERVER_ROWS } from './rows-servers.ts'
import type { Ids, Organization, World } from './world.ts'

/** Ids for the path, and a body. */
export interface Asked {
  params?: Record<string, string | number>
  query?: string
  body?: unknown
}

export interface Row {
  /** Whoever may do it gets one of these: success, or a refusal by state, never by permission. */
  accepts: readonly number[]
  /** A request for things of this organization; called anew for every try. */
  ask?: (organization: Organization, world: World) => Asked | Promise<Asked>
  /**
   * The same with ids from elsewhere in the path. Only where `ask` makes something fresh; otherwise `ask` itself is
   * called with the other ids.
   */
  elsewhere?: (other: Ids, world: World) => Asked
  /** Requests in one's own organization that name things of another one. */
  mixed?: ((own: Organization, other: Ids, world: World) => Asked)[]
  /** These roles alone, where a rule beyond `needs` decides; the others are refused by permission. */
  only?: readonly Role[]
  /** The list this route gives holds nothing for somebody without a membership. */
  isList?: boolean
  /** Making needs an organization: 422 for somebody without a membership. */
  isCreation?: boolean
}

export const ROWS: Record<string, Row> = {
  ...PLATFORM_ROWS,
  ...PROJECT_ROWS,
  ...SERVER_ROWS,
  ...ENVIRONMENT_ROWS,
  ...PEOPLE_ROWS,
}
