"""The web console: login, the Controller's calls, downloads and the stream over HTTP, and the files of the page.

`app` has the routes, `security` the logins and the checks of every request, `calls` performs calls, `static_files`
sends the page. `static/` is the page. Nothing here decides what a principal may do: the controller does.

May import http, controller and below. This file imports nothing: the daemon loads the console when it is first used. Start
reading at `app`.
"""
