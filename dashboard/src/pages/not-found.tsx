// One page for "not found" and "no access". The organization switcher in the header leads on.
import { Link } from '@tanstack/react-router'
import { Page } from '../components/page.tsx'

export function NotFound() {
  return (
    <Page title="Not found, or you have no access">
      <p>
        This page does not exist, or it belongs to an organization you are not a member of. Choose
        another organization in the header, or go <Link to="/">to the projects</Link>.
      </p>
    </Page>
  )
}
