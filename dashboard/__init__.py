"""Dashboard: the pages and their WebSockets. The pages' JavaScript and CSS need no build step."""
