// Ends the login of this browser and clears everything that was loaded with it.
import { api, queryClient } from '../api.ts'
import { forgetSession } from '../session.ts'

export async function signOut(): Promise<void> {
  await api.session.signOut.mutate().catch(() => {})
  forgetSession()
  queryClient.clear()
  location.assign('/login')
}
